#!/usr/bin/python3 -B
"""Linear regression as a model process, of the standard library alone.

y = w x + b with F features, fitted to samples that are a function of their
index; linear_model.cc computes the same, to the same bits. Sums are those of
Python's floats (double), in order. Test samples are those from number 10^6 on;
the accuracy is the share of them that are off by less than 1. With the argument
`log` it logs the bias, of each task and evaluation; with `fork` each task has a
helper, a child that fails.
"""

import os
import pathlib
import sys

sys.path.insert(
    0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))

from sluice import model_process  # pylint: disable=wrong-import-position


def sample(index, features):
    """The inputs and the target of a sample."""
    x = [((index * 7 + j * 3) % 11 - 5) / 8 for j in range(features)]
    return x, sum((j + 1) / 2 * x[j] for j in range(features)) + 0.25


def error_of(weights, index):
    """How far the model is off at a sample, and the sample's inputs."""
    features = len(weights) - 1  # The last float is the bias.
    x, y = sample(index, features)
    error = weights[features] - y
    for j in range(features):
        error += weights[j] * x[j]
    return error, x


def log_bias(asked):
    if "log" in sys.argv[1:]:
        asked.log({"bias": asked.weights[-1]})


def fork_a_helper():
    if "fork" not in sys.argv[1:]:
        return
    child = os.fork()
    if child == 0:
        raise RuntimeError("only the helper has failed")
    os.waitpid(child, 0)


def measure(evaluation):
    """The loss and the accuracy."""
    weights = list(evaluation.weights)
    loss = near = 0
    for i in range(evaluation.samples):
        evaluation.check()
        error, _ = error_of(weights, 10**6 + i)
        loss += error * error / 2
        near += abs(error) < 1
    log_bias(evaluation)
    return loss / evaluation.samples, near / evaluation.samples


def prepare(description):
    if description.role == "evaluator":
        return measure
    features = description.parameters - 1

    def compute(task):
        fork_a_helper()
        weights = list(task.weights)
        total = [0.0] * (features + 1)
        loss = 0.0
        for batch in task.batches:
            task.check()
            gradient = [0.0] * (features + 1)
            for index in batch:
                error, x = error_of(weights, index)
                loss += error * error / 2
                for j in range(features):
                    gradient[j] += error * x[j]
                gradient[features] += error
            for j in range(features + 1):
                gradient[j] /= len(batch)
                weights[j] -= task.rate * gradient[j]
                total[j] += gradient[j]
        task.gradient[features] = total[features]
        task.final_from(features)
        for j in range(features):
            task.gradient[j] = total[j]
        log_bias(task)
        return loss / task.samples

    return compute


if __name__ == "__main__":
    model_process.serve(prepare)

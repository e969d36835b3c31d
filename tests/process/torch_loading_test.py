#!/usr/bin/python3 -B
"""The mini-batches of sluice.torch: which samples, who makes them, and when."""

import dataclasses
import multiprocessing
import os
import signal
import unittest
from concurrent.futures.process import BrokenProcessPool

import harness
from fake_worker import SAMPLES, FakeTask, model_and_optimizer

if "torch" in harness.SUITES:
    import torch

    import sluice.torch


class Noisy:
    """Two samples with a random part, and the process that made them."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return index, torch.rand(()).item(), os.getpid()


class Told:
    """Two samples: what the process that makes them was told."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        assert info.dataset is self
        assert info.seed == self.seed_at_start
        return info.id, info.num_workers, self.number

    def begin(self, number):
        """The worker_init_fn: that process's copy of the dataset knows it."""
        dataset = torch.utils.data.get_worker_info().dataset
        dataset.number = number
        dataset.seed_at_start = torch.initial_seed()


class OnlyHere:
    """Two samples that are not sent to another process."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return index

    def __reduce__(self):
        raise TypeError("the dataset is pickled")


class NotHere:
    """Two samples that only the process that made them can have."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGKILL)

    def __reduce__(self):
        return lost, ()


def lost():
    raise ValueError("the dataset is lost")


def fail(number):
    raise ValueError(f"process {number} has no file")


@harness.suite("torch")
class LoadingTest(unittest.TestCase):

    def test_a_process_is_told_what_those_of_a_data_loader_are(self):
        _, opt, _ = model_and_optimizer(*[FakeTask(n) for n in range(4)])
        dataset, told = Told(), set()
        for batch in opt.batches(torch.utils.data.DataLoader(
                dataset, batch_size=2, num_workers=2,
                worker_init_fn=dataset.begin)):
            told |= set(zip(*[values.tolist() for values in batch]))
            opt.step(0.0)
        self.assertTrue(told <= {(0, 2, 0), (1, 2, 1)}, told)
        self.assertIsNone(torch.utils.data.get_worker_info())

    def test_why_a_process_made_nothing_is_said(self):
        for said, dataset, options in [
                ("process 0 has no file", SAMPLES, {"worker_init_fn": fail}),
                ("the dataset is lost", NotHere(),
                 {"multiprocessing_context": "spawn"}),
                ("a process of the DataLoader was killed", NotHere(), {})]:
            _, opt, _ = model_and_optimizer(FakeTask(0))
            with self.subTest(said), self.assertRaisesRegex(
                    (ValueError, BrokenProcessPool), said):
                next(opt.batches(torch.utils.data.DataLoader(
                    dataset, batch_size=2, num_workers=1, **options)))

    def test_processes_are_forked_whatever_pythons_default_is(self):
        # From Python 3.14 on that is "forkserver".
        default = multiprocessing.get_start_method()
        self.addCleanup(multiprocessing.set_start_method, default, force=True)
        multiprocessing.set_start_method("forkserver", force=True)
        _, opt, _ = model_and_optimizer(FakeTask(0))
        for batch in opt.batches(torch.utils.data.DataLoader(
                OnlyHere(), batch_size=2, num_workers=1)):
            self.assertEqual(batch.tolist(), [0, 1])
            opt.step(0.0)

    def load(self, *numbers, **options):
        """What is random in mini-batches of these numbers, how many were begun
        early, and the processes that made them."""
        _, opt, _ = model_and_optimizer(*[FakeTask(n) for n in numbers])
        drawn, processes = [], set()
        for indices, random, made_by in opt.batches(
                torch.utils.data.DataLoader(Noisy(), batch_size=2, **options)):
            self.assertEqual(indices.tolist(), [0, 1])
            drawn.append(random.tolist())
            processes |= set(made_by.tolist())
            opt.step(0.0)
        return drawn, opt.loaded_early_total, processes

    def test_processes_make_the_same_samples_and_begin_with_the_next(self):
        here, early, processes = self.load(0, 1, 5, 2)
        self.assertEqual((early, processes), (0, {os.getpid()}))
        self.assertEqual(len({tuple(one) for one in here}), 4)
        for method in ["fork", "spawn"]:
            with self.subTest(method):
                drawn, early, processes = self.load(
                    0, 1, 5, 2, num_workers=2, multiprocessing_context=method)
                self.assertEqual(drawn, here)
                self.assertEqual(early, 1)  # The one that follows its number.
                self.assertNotIn(os.getpid(), processes)

    def test_without_processes_the_next_one_is_made_while_the_worker_pushes(
            self):
        def early(*numbers):
            tasks = [FakeTask(n) for n in numbers]
            _, opt, _ = model_and_optimizer(*tasks)
            made, found = [], []
            for batch in opt.batches(Noisy()):
                made.append(opt.loaded_early_total)
                found.append(batch[1].tolist())
                opt.step(0.0)
            return made, found

        # Once one was expected that came, until one was that did not.
        made, found = early(0, 1, 2, 5, 6, 7)
        self.assertEqual(made, [0, 0, 1, 1, 1, 2])
        self.assertEqual(found[2], early(2)[1][0])
        self.assertEqual(found[5], early(7)[1][0])

    def test_what_fails_ahead_of_its_task_is_raised_in_it_alone(self):
        tasks = [FakeTask(n) for n in (0, 1, 2, 3)]
        tasks[1].next_batches = tasks[2].next_batches = ((9, 9),)
        tasks[3].batches = ((9, 9),)
        _, opt, _ = model_and_optimizer(*tasks)
        with self.assertRaises(IndexError):
            for _ in opt.batches(SAMPLES):
                opt.step(0.0)
        self.assertEqual([task.over for task in tasks],
                         [True, True, True, False])

    def test_what_the_dataset_raises_is_raised(self):
        _, opt, _ = model_and_optimizer(FakeTask(0, batches=[["one"]]))
        loader = torch.utils.data.DataLoader([1, 2], batch_size=2,
                                             num_workers=1)
        with self.assertRaisesRegex(TypeError, "list indices must be integers"):
            next(opt.batches(loader))

    def refusal_of(self, loader, **job):
        """What is said of it; nothing where it is accepted."""
        _, opt, worker = model_and_optimizer(FakeTask(0))
        worker.description = dataclasses.replace(
            worker.description, train_samples=len(loader.dataset), **job)
        try:
            next(opt.batches(loader))
        except sluice.torch.MisuseError as error:
            return str(error)
        return ""

    def test_a_loader_that_would_drop_the_last_samples_is_refused(self):
        def loader(samples):
            return torch.utils.data.DataLoader([0.0] * samples, batch_size=4,
                                               drop_last=True)
        said = self.refusal_of(loader(9), batch_size=4)
        self.assertIn("train_samples is 9, no multiple of its data.batch_size, "
                      "4; expected drop_last=False, or a dataset and "
                      "train_samples that are a multiple of 4", said)
        self.assertEqual(self.refusal_of(loader(8), batch_size=4), "")
        self.assertIn("is 12 / 2 workers, no multiple of its data.batch_size, "
                      "4; ",
                      self.refusal_of(loader(12), batch_size=4, partitions=2))
        self.assertEqual(
            self.refusal_of(loader(16), batch_size=4, partitions=2), "")

    def test_a_batch_sampler_that_does_not_fit_the_job_is_refused(self):
        def loader(batch_size, drop_last):
            return torch.utils.data.DataLoader(
                [0.0] * 9, batch_sampler=torch.utils.data.BatchSampler(
                    torch.utils.data.SequentialSampler(range(9)), batch_size,
                    drop_last))
        self.assertEqual(self.refusal_of(loader(3, False), batch_size=4),
                         "the DataLoader has mini-batches of 3, the job's "
                         "data.batch_size is 4")
        self.assertIn("drop_last", self.refusal_of(loader(4, True),
                                                   batch_size=4))
        self.assertEqual(self.refusal_of(loader(4, False), batch_size=4), "")
        of_its_own = torch.utils.data.DataLoader(
            [0.0] * 9, batch_sampler=[[0, 1], [2]])
        self.assertEqual(self.refusal_of(of_its_own, batch_size=4), "")

    def test_a_loader_that_does_not_fit_the_job_is_refused(self):
        def endless():
            yield 1

        class Iterable(torch.utils.data.IterableDataset):
            def __len__(self):
                return 2
            def __iter__(self):
                return iter(range(2))
        for dataset, said in [
                ([1], "the dataset has 1 samples, the job's "
                 "data.external.train_samples is 2"),
                (torch.utils.data.DataLoader([1, 2], batch_size=1),
                 "the DataLoader has mini-batches of 1, the job's "
                 "data.batch_size is 2"),
                (torch.utils.data.DataLoader([1, 2], batch_size=None),
                 "the DataLoader has batch_size=None: its dataset makes the "
                 "mini-batches, whose samples the cluster chooses, expected a "
                 "dataset with len"),
                (endless(), r"has no len\(\), expected a dataset with len"),
                (torch.utils.data.DataLoader(Iterable(), batch_size=2),
                 "Iterable object .* has samples in an order of its own, "
                 "expected a dataset with len")]:
            _, opt, _ = model_and_optimizer(FakeTask(0))
            with self.assertRaisesRegex(sluice.torch.MisuseError, said):
                next(opt.batches(dataset))


if __name__ == "__main__":
    harness.main()

"""What the job's evaluator asks of a PyTorch program."""

from collections.abc import Callable
from typing import Any

import torch

from sluice import model_process

# The mean loss over the test data, or (loss, accuracy).
Measured = float | torch.Tensor | tuple[Any, Any]


def hook_modules(model: torch.nn.Module, check: Callable) -> list[Any]:
    """Has `check` called before each module, until what is returned is removed.
    Scripted ones take no hook."""
    return [module.register_forward_pre_hook(check)
            for module in model.modules()
            if not isinstance(module, torch.jit.ScriptModule)]


def serve(worker: model_process.Worker, model: torch.nn.Module,
          place: Callable[[int], None], measure: Callable[[], Measured],
          logged: Callable[[], dict[str, float]]) -> None:
    """Answers each evaluation with what `measure()` returns and what has been
    `logged()` by then, until the run ends. `place(n)` has the model compute at the weights of buffer n. An
    evaluation that nobody waits for any more is left when the next module of
    the model is called."""
    current: model_process.Evaluation | None = None

    def check(*_: Any) -> None:
        if current is not None and not current.over:
            current.check()

    def measure_and_log() -> Measured:
        try:
            measured = measure()
        finally:
            values = logged()  # Not for the next one, if this is left.
        current.log(values)
        return measured

    hooks = hook_modules(model, check)
    try:
        for current in worker.evaluations():
            place(current.weights_buffer)
            model.eval()
            with torch.no_grad():
                model_process.finish_evaluation(current, measure_and_log)
    finally:
        for hook in hooks:
            hook.remove()

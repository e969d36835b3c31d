"""The job of a PyTorch model: its table of tensors and its first weights."""

import ctypes
import dataclasses
import hashlib
import json
import pathlib
import re
import struct

import torch
from torch.nn.modules.batchnorm import _NormBase as BatchNorm

_NORMS = (BatchNorm, torch.nn.LayerNorm, torch.nn.GroupNorm)

# The cluster's are float32: a model with others has its own memory, to and from
# which they are converted.
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

# What a tensor may be called (common/job/external_validation.cc).
_NAME = re.compile(r"[!-~]{1,256}")


class MisuseError(Exception):
    """The program did something that it must not: says what was expected and
    what came."""


@dataclasses.dataclass(frozen=True)
class ModelTensor:
    """A tensor of the model that the cluster holds."""
    name: str  # As in the model's state_dict.
    module: torch.nn.Module  # Which has it as `attribute`.
    attribute: str
    kind: str  # "WEIGHT", "BIAS", "NORM" or "STATISTIC"
    momentum: float | None = None  # Of a STATISTIC.

    @property
    def tensor(self) -> torch.Tensor:
        """As the module has it now: model.to(...) replaces buffers."""
        return getattr(self.module, self.attribute)

    @property
    def is_statistic(self) -> bool:
        return self.kind == "STATISTIC"


def tensors_of(model: torch.nn.Module) -> list[ModelTensor]:
    """The model's trained parameters and the running statistics of its batch
    norms, in the order of its modules; a tied parameter once. What is frozen,
    and other buffers, each process has from the program. Raises ValueError
    where one is empty, has no memory (as on "meta") or numbers that the cluster
    cannot hold, or has a name that no job accepts, and for statistics that are
    no moving average. Raises MisuseError where two parameters share memory."""
    found = []
    seen = set()
    for path, module in model.named_modules():
        prefix = path + "." if path else ""
        for name, tensor in module.named_parameters(recurse=False):
            if not tensor.requires_grad or id(tensor) in seen:
                continue
            seen.add(id(tensor))
            kind = ("NORM" if isinstance(module, _NORMS) else
                    "BIAS" if tensor.ndim <= 1 else "WEIGHT")
            found.append(ModelTensor(prefix + name, module, name, kind))
        if not isinstance(module, BatchNorm) or module.running_mean is None:
            continue
        if module.momentum is None or not 0 < module.momentum <= 1:
            raise ValueError(f"{path}: its momentum is {module.momentum}, "
                             "expected a number above 0 and at most 1 (None is "
                             "a cumulative average)")
        for name in ("running_mean", "running_var"):
            found.append(ModelTensor(prefix + name, module, name, "STATISTIC",
                                     module.momentum))
    for one in found:
        if not _NAME.fullmatch(one.name):
            raise ValueError(f"{one.name!r} is the name of a tensor, expected 1 "
                             "to 256 printable characters of ASCII without "
                             "spaces")
        if one.tensor.dtype not in _DTYPES or one.tensor.is_meta:
            raise ValueError(f"{one.name} is {one.tensor.dtype} on "
                             f"{one.tensor.device}, expected one of "
                             f"{', '.join(map(str, _DTYPES))}, in memory")
        if one.tensor.numel() == 0:
            raise ValueError(f"{one.name} has the shape "
                             f"{list(one.tensor.shape)}, expected at least one "
                             "number")
    _check_memory(model)
    return found


def _check_memory(model: torch.nn.Module) -> None:
    """Of two parameters with common memory each would get memory of its own."""
    spans = []  # In memory, of each.
    for name, parameter in model.named_parameters():
        if (not parameter.is_meta and parameter.layout == torch.strided and
                not torch.nn.parameter.is_lazy(parameter) and
                parameter.numel() > 0):
            begin = parameter.data_ptr()
            end = begin + parameter.element_size() * (
                1 + _last_place(parameter))
            spans.append((begin, end, name, parameter))
    before = []
    for begin, end, name, parameter in sorted(spans, key=lambda span: span[0]):
        before = [span for span in before if span[1] > begin]
        for _, _, other_name, other in before:
            if _have_common_memory(other, parameter):
                raise MisuseError(
                    f"{other_name} and {name} are two parameters that share "
                    "memory, expected that each has its own; what is tied must "
                    "be one Parameter: b.weight = a.weight, not b.weight.data "
                    "= a.weight.data")
        before.append((begin, end, name, parameter))


def _last_place(tensor: torch.Tensor) -> int:
    """Of its numbers, counted from the first one in memory."""
    return sum((side - 1) * stride
               for side, stride in zip(tensor.shape, tensor.stride()))


def _have_common_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of two whose spans overlap, whether a number is in both: their rows may
    take turns in memory."""
    if one.is_contiguous() and other.is_contiguous():
        return True
    one, other = [
        tensor.data_ptr() + tensor.element_size() * torch.arange(
            1 + _last_place(tensor), device="cpu").as_strided(
                tensor.shape, tensor.stride()).flatten()
        for tensor in (one, other)]
    return bool(torch.isin(one, other).any())


def fixed_digests(model: torch.nn.Module) -> dict[str, str]:
    """By name, texts that are equal for equal values, of what no job has:
    frozen parameters and buffers. Buffers of batch norms and sparse ones do not
    count."""
    statistics = {id(tensor) for module in model.modules()
                  if isinstance(module, BatchNorm)
                  for tensor in module.buffers(recurse=False)}
    fixed = [(name, tensor) for name, tensor in model.named_parameters()
             if not tensor.requires_grad]
    fixed += [(name, tensor) for name, tensor in model.named_buffers()
              if id(tensor) not in statistics
              and tensor.layout == torch.strided]
    digests = {}
    for name, tensor in fixed:
        values = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        digest = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(_bytes_of(values))
        digests[name] = digest.hexdigest()
    return digests


def _bytes_of(tensor: torch.Tensor) -> ctypes.Array:
    """The memory of a contiguous tensor on the CPU, as long as that lives.
    (Tensor.numpy() would need NumPy, which PyTorch does not.)"""
    size = tensor.numel() * tensor.element_size()
    return (ctypes.c_char * size).from_address(tensor.data_ptr())


def fixed_digest(digests: dict[str, str]) -> str:
    """A text that is equal for equal `fixed_digests`; empty for none."""
    digest = hashlib.sha256(json.dumps(digests).encode()).hexdigest()
    return (f"frozen parameters and buffers, sha256 {digest}"
            if digests else "")


def init(model: torch.nn.Module, folder: str | pathlib.Path, *,
         train_samples: int, test_samples: int = 0, batch_size: int = 64,
         policy: str = "SYNC", k: int | None = None, local_steps: int = 1,
         job: str = "") -> pathlib.Path:
    """Writes the job of `model` into `folder`, which it makes: job.textproto,
    and version0.safetensors with the weights that the model has now. Without
    `test_samples` nothing is measured while the run goes on. `job` is
    the rest of the job file as text: cluster, optimizer, stop and so on, but
    not `sync`, `data` or `model`, which stand there already (what else they
    have is set by --set). Returns the path of the job file."""
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tensors = tensors_of(model)
    weights = folder / "version0.safetensors"
    weights.write_bytes(_safetensors(tensors))
    sync = f"policy: {policy} local_steps: {local_steps}" + (
        f" k: {k}" if k is not None else "")
    lines = [
        f"sync {{ {sync} }}",
        f"data {{ external {{ train_samples: {train_samples} "
        f"test_samples: {test_samples} }} batch_size: {batch_size} }}",
        f"model {{ init_from: {json.dumps(str(weights))}",
        "  external {"]
    for one in tensors:
        shape = " ".join(f"shape: {n}" for n in one.tensor.shape)
        momentum = f" momentum: {one.momentum}" if one.is_statistic else ""
        lines.append(f"    tensor {{ name: {json.dumps(one.name)} {shape} "
                     f"kind: {one.kind}{momentum} }}")
    lines += ["  }", "}", job.strip(), ""]
    path = folder / "job.textproto"
    path.write_text("\n".join(lines))
    return path


def load(model: torch.nn.Module, path: str | pathlib.Path) -> None:
    """Gives the model the weights of a run, its weights.safetensors, by name:
    parameters, be they frozen in this model or not, and running statistics.
    Raises ValueError where the file has one that the model has not, lacks one
    that the model trains, or has one of another shape."""
    data = pathlib.Path(path).read_bytes()
    [size] = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    trained = {one.name: one.tensor for one in tensors_of(model)}
    tensors = dict(model.named_parameters()) | trained
    if not trained.keys() <= header.keys() <= tensors.keys():
        raise ValueError(f"{path} has {sorted(header.keys() - tensors.keys())} "
                         f"which the model has not, and lacks "
                         f"{sorted(trained.keys() - header.keys())}")
    for name, entry in header.items():
        if entry["dtype"] != "F32" or entry["shape"] != list(
                tensors[name].shape):
            raise ValueError(f"{path}: {name} is {entry['dtype']} "
                             f"{entry['shape']}, expected F32 "
                             f"{list(tensors[name].shape)}")
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(bytearray(data[8 + size + begin:
                                                 8 + size + end]),
                                  dtype=torch.float32)
        tensors[name].data.copy_(values.view(tensors[name].shape))


def _safetensors(tensors: list[ModelTensor]) -> bytes:
    """The file format of https://github.com/huggingface/safetensors."""
    header, parts, begin = {}, [], 0
    for one in tensors:
        values = one.tensor.detach().cpu().float().contiguous()
        part = bytes(_bytes_of(values))
        header[one.name] = {"dtype": "F32", "shape": list(one.tensor.shape),
                            "data_offsets": [begin, begin + len(part)]}
        parts.append(part)
        begin += len(part)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(parts)

"""Training of one model by several processes, started by torchrun; each computes its share of every batch.

Every process draws the same batches from the same generator and computes its share of each. DistributedDataParallel
averages the gradients, so that all processes have the same weights after every step. Losses are weighted by the content
of a share, so that the average is the gradient of the whole batch, however unevenly its pairs and labels are divided.
Batch norm uses the statistics of a process's own share; running statistics are averaged after every epoch. Only the
first process reads and writes the run folder. With one process, every method here is the identity.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gssc.data.npy_files import write_array
from gssc.errors import GsscError

Value = TypeVar("Value")
# Long enough for a process that reads a large graph for the others. A process that ends closes its connections, which
# the others notice immediately.
LONGEST_WAIT = timedelta(hours=24)
LOST = "a process of this run ended, or torchrun was stopped; to continue, run the same command with --resume"
# Words in the errors of gloo and NCCL when the other end of a connection has ended.
LOST_WORDS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset", "Broken pipe", "Socket")


@dataclass(frozen=True)
class Processes:
    """The processes of a run, as seen by one of them.

    Args:
        rank: number of this process.
        count: number of processes.
        machine: number of this process's machine.
        leads: whether this is the first process of its machine.
    """

    rank: int = 0
    count: int = 1
    machine: int = 0
    leads: bool = True

    @property
    def first(self) -> bool:
        """Whether this is the first process, which reads and writes files."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Return the slice of ``count`` rows that this process computes: all, if there are fewer than two each."""
        if count < 2 * self.count:
            return slice(0, count)
        return slice(self.rank * count // self.count, (self.rank + 1) * count // self.count)

    def scaled(
        self, items: Iterable[Value], amounts: Callable[[Value], tuple[float, ...]]
    ) -> Iterator[tuple[Value, list[float]]]:
        """Yield items with factors for means over a share: their average over processes is the mean over all shares.

        The amounts of the next item are added up over processes while the current item is computed, so that no process
        waits for them.

        Args:
            items: batches that the processes compute one after another; each process has its own share of a batch.
            amounts: function that returns the total weight of each mean of a share: its number of pairs, or the sum of
                its weights.
        """
        if self.count == 1:
            for item in items:
                yield item, [1.0] * len(amounts(item))
            return
        waiting: tuple[Value, Tensor, Tensor, dist.Work] | None = None
        for item in items:
            own = torch.tensor(amounts(item), dtype=torch.float64)
            total = own.clone()
            work = dist.all_reduce(total, async_op=True)
            if waiting is not None:
                yield self._with_factors(*waiting)
            waiting = item, own, total, work
        if waiting is not None:
            yield self._with_factors(*waiting)

    def _with_factors(self, item: Value, own: Tensor, total: Tensor, work: dist.Work) -> tuple[Value, list[float]]:
        work.wait()
        return item, (self.count * own / total.clamp(min=1e-12)).tolist()

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of each value over processes."""
        if self.count == 1:
            return values
        total = torch.from_numpy(values.copy())
        dist.all_reduce(total)
        return total.numpy() / self.count

    def gathered(self, part: Tensor, place: slice, count: int) -> Tensor:
        """Return all ``count`` rows, of which this process has computed those at ``place``."""
        if self.count == 1:
            return part
        whole = part.new_zeros(count, *part.shape[1:])
        whole[place] = part
        return self.summed(whole, count)

    def summed(self, values: Tensor, rows: int) -> Tensor:
        """Return the sum of the values over processes, each from its share of ``rows``, in place."""
        if self.share(rows) != slice(0, rows):
            dist.all_reduce(values)
        return values

    def of_first(self, values: Tensor) -> Tensor:
        """Copy the values of the first process to all, in place, so that rounding does not make them differ."""
        if self.count > 1:
            dist.broadcast(values, src=0)
        return values

    def average_statistics(self, *modules: nn.Module) -> None:
        """Set the running statistics of all processes to their mean."""
        if self.count == 1:
            return
        found = {id(buffer): buffer for module in modules for buffer in module.buffers()}
        buffers = [buffer for buffer in found.values() if buffer.is_floating_point()]
        if buffers:
            together = torch.cat([buffer.flatten() for buffer in buffers])
            dist.all_reduce(together)
            means = (together / self.count).split([buffer.numel() for buffer in buffers])
            for buffer, mean in zip(buffers, means, strict=True):
                buffer.copy_(mean.view_as(buffer))

    def from_first(self, make: Callable[[], Value]) -> Value:
        """Return in every process what ``make`` returns in the first; an error there ends all of them."""
        if self.count == 1:
            return make()
        sent: list[Any] = [None, None]
        failure: Exception | None = None
        if self.first:
            try:
                sent[0] = make()
            except Exception as error:
                failure, sent[1] = error, str(error)
        dist.broadcast_object_list(sent, src=0, device=torch.device("cpu"))
        if failure is not None:
            raise failure
        if sent[1] is not None:
            raise GsscError(sent[1])
        found: Value = sent[0]
        return found

    def shared_arrays(self, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return arrays that one process per machine makes; the others map its files, so that they share the memory.

        The files are temporary and are deleted as soon as every process has opened them.
        """
        if self.count == 1:
            return make()
        made: str | None = None
        failure: Exception | None = None
        with tempfile.TemporaryDirectory(prefix="gssc-") as folder:
            if self.leads:
                try:
                    for name, array in make().items():
                        write_array(Path(folder, f"{name}.npy"), array)
                    made = folder
                except Exception as error:
                    failure = error
            everyone: list[Any] = [None] * self.count
            dist.all_gather_object(everyone, (self.machine, made, str(failure) if failure else None))
            if failure is not None:
                raise failure
            for _, _, error_text in everyone:
                if error_text is not None:
                    raise GsscError(error_text)
            place = next(found for machine, found, _ in everyone if found and machine == self.machine)
            arrays = {path.stem: np.load(path, mmap_mode="c", allow_pickle=False) for path in Path(place).iterdir()}
            dist.barrier()
        return arrays

    def own_rng(self, shared: np.random.Generator) -> np.random.Generator:
        """Return a generator for what differs between processes, such as dropout; see :meth:`renew`."""
        return shared if self.count == 1 else np.random.Generator(np.random.SFC64(self.rank))

    def renew(self, own: np.random.Generator, *seed: int) -> None:
        """Reseed the generator of this process, so that a checkpoint does not need one per process."""
        if self.count > 1:
            own.bit_generator.state = np.random.SFC64([*seed, self.rank, self.count]).state


class SharedModel:
    """A model trained by several processes: ``shared("compare", batch)`` calls a method and averages gradients.

    The processes connect at the first call, not before: until then one of them may read files alone.
    """

    def __init__(self, model: nn.Module, processes: Processes):
        self.processes = processes
        self._module: nn.Module = _Calls(model)

    def __call__(self, method: str, *arguments: Any) -> Any:
        if self.processes.count > 1 and not isinstance(self._module, DistributedDataParallel):
            place = next(self._module.parameters()).device
            with warnings.catch_warnings():  # torch 2.13 has another name for broadcast_buffers, older ones do not
                warnings.simplefilter("ignore", FutureWarning)
                self._module = DistributedDataParallel(
                    self._module,
                    device_ids=[place] if place.type == "cuda" else None,
                    broadcast_buffers=False,
                    find_unused_parameters=True,  # a step on rows alone does not use the parameters of pairs
                )
                _connected.add(self)
        return self._module(method, *arguments)

    def disconnect(self) -> None:
        """Compute alone from now on."""
        if isinstance(self._module, DistributedDataParallel):
            self._module = self._module.module
        self.processes = Processes()


class _Calls(nn.Module):
    """Calls methods of a model by name, because DistributedDataParallel wraps only ``forward``."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, method: str, *arguments: Any) -> Any:
        return getattr(self.model, method)(*arguments)


_here = Processes()
_connected: weakref.WeakSet[SharedModel] = weakref.WeakSet()


def _disconnect() -> None:
    """Leave the process group.

    A connected model would keep the threads of the group until the interpreter ends, and a thread that then releases
    its last tensor aborts the process.
    """
    for shared in list(_connected):
        shared.disconnect()
    gc.collect()
    dist.destroy_process_group()


def processes() -> Processes:
    """Return the processes of the current run; a single one outside of :func:`joined`."""
    return _here


@contextmanager
def joined() -> Iterator[Processes]:
    """Join the other processes if torchrun started this one. Only the first process with an error reports it."""
    global _here
    if not dist.is_available() or not dist.is_torchelastic_launched() or int(os.environ["WORLD_SIZE"]) == 1:
        yield _here
        return
    before = signal.signal(signal.SIGTERM, _stop)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=LONGEST_WAIT)
    machine, leads = int(os.environ.get("GROUP_RANK", 0)), int(os.environ["LOCAL_RANK"]) == 0
    _here = Processes(dist.get_rank(), dist.get_world_size(), machine, leads)
    try:
        yield _here
    except (GsscError, RuntimeError) as error:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun stops the others as soon as one ends
        lost = not isinstance(error, GsscError)
        if lost and not any(word in str(error) for word in LOST_WORDS):
            raise
        if not _reports():
            raise SystemExit(2) from None
        raise GsscError(LOST) if lost else error from None
    finally:
        _here = Processes()
        _disconnect()
        signal.signal(signal.SIGTERM, before)


def _stop(*_: Any) -> None:
    raise GsscError(LOST)


def _reports() -> bool:
    """Return whether this process is the first to report an error; the count is kept in torchrun's own process."""
    try:
        store = dist.distributed_c10d._get_default_store()
        return int(store.add("gssc-errors", 1)) == 1
    except RuntimeError:
        return True

"""Constant sparse matrices with fast products that have a gradient for the dense operand."""

from __future__ import annotations

import math
import warnings
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

PANEL = 64  # columns that a transposed product handles at a time if the operand is large
CACHE = 3 * 2**19  # bytes of an operand that stay in the cache of a processor
MIN_ENTRIES = 16  # mean number of entries of a row in a block, from which blocks are faster


class Parts(NamedTuple):
    """CSR arrays of a matrix on its device: ``[R + 1]``, ``[nnz]`` and ``[nnz]``."""

    starts: Tensor
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]

    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor."""
        with warnings.catch_warnings():
            # torch warns that CSR is in beta and unchecked; scipy guarantees valid indices.
            warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")
            return torch.sparse_csr_tensor(*self[:3], size=self.shape, check_invariants=False)


class Sparse:
    """Constant matrix ``[R, C]``; ``S @ H`` with dense ``H`` ``[C, K]`` has a gradient for ``H``.

    torch's CSR product transposes the matrix in every backward pass. This class caches the
    transpose at the first backward pass.
    """

    def __init__(self, matrix: sp.sparray, device: torch.device | str = "cpu") -> None:
        self.matrix = matrix.tocsr().astype(np.float32, copy=False)
        self.matrix.sort_indices()
        self.shape = self.matrix.shape
        self.nnz = self.matrix.nnz
        self.device = torch.device(device)
        self._repeated: dict[int, Sparse] = {}
        self._blocks: dict[int, list[Parts]] = {}

    @property
    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of each entry, both ``[nnz]``, sorted by row."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.matrix.indptr)), self.matrix.indices

    @cached_property
    def parts(self) -> Parts:
        """CSR arrays of the matrix on its device."""
        return _parts(self.matrix, self.device)

    @cached_property
    def transposed(self) -> Parts:
        """CSR arrays of the transposed matrix on its device."""
        return _parts(self.matrix.T.tocsr(), self.device)

    @cached_property
    def rows(self) -> Tensor:
        """Row of each entry, ``[nnz]``."""
        return torch.repeat_interleave(self.parts.starts.diff(), output_size=self.nnz)

    @cached_property
    def by_column(self) -> Tensor:
        """Position of each entry of the transposed matrix in this one, ``[nnz]``."""
        number = np.arange(self.nnz)
        numbered = sp.csr_array((number, self.matrix.indices, self.matrix.indptr), self.shape)
        return torch.from_numpy(numbered.T.tocsr().data).to(self.device)

    def repeated(self, times: int) -> Sparse:
        r"""Kronecker product :math:`S \otimes I` ``[R * times, C * times]``, cached."""
        if times == 1:
            return self
        if times not in self._repeated:
            identity = sp.eye_array(times, dtype=np.float32)
            self._repeated[times] = Sparse(sp.kron(self.matrix, identity, "csr"), self.device)
        return self._repeated[times]

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(dense, self)

    def transposed_product(self, dense: Tensor) -> Tensor:
        r"""Product :math:`S^\top H` with a dense matrix ``[R, K]``, ``[C, K]``.

        An operand larger than the cache is read in blocks of rows and columns, two to three times
        faster, unless the blocks of the matrix have few entries.
        """
        rows, columns = self.shape
        size = CACHE // (4 * min(PANEL, dense.size(1)))
        count = math.ceil(rows / size)
        if dense.is_cuda or count == 1 or self.nnz < MIN_ENTRIES * columns * count:
            return _multiply(self.transposed, dense)
        if size not in self._blocks:
            cuts = range(0, rows, size)
            blocks = (self.matrix[cut : cut + size].T.tocsr() for cut in cuts)
            self._blocks[size] = [_parts(block, self.device) for block in blocks]
        found = dense.new_zeros(columns, dense.size(1))
        for panel, out in zip(dense.split(PANEL, 1), found.split(PANEL, 1)):
            for block, part in zip(self._blocks[size], panel.split(size)):
                out += _multiply(block, part)
        return found

    def softmax(self, scores: Tensor, counts: bool = False) -> Tensor:
        """Softmax of scores ``[nnz]`` over the entries of each row; no row may be empty.

        With ``counts``, the value of an entry is its multiplicity.
        """
        return _Softmax.apply(scores, self, counts)

    def weighted(self, values: Tensor, dense: Tensor) -> Tensor:
        """Product ``[R, K]`` with other values ``[nnz]``, with a gradient for both operands."""
        return _Weighted.apply(values, dense, self)

    def __getitem__(self, rows: Tensor | slice) -> Sparse:
        part = self.matrix[rows if isinstance(rows, slice) else rows.cpu().numpy()]
        part.has_sorted_indices = True
        return Sparse(part, self.device)


def dense(matrix: Tensor | Sparse) -> Tensor:
    """A matrix ``[R, C]`` as a dense tensor; dense tensors are returned unchanged."""
    if isinstance(matrix, Tensor):
        return matrix
    return torch.from_numpy(matrix.matrix.toarray()).to(matrix.device)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dense: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        # embedding_bag would prepare a gradient of its own for a tensor that requires one.
        return _multiply(matrix.parts, dense.detach())

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.transposed_product(gradient), None


class _Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, dense: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values, dense)
        return _multiply(matrix.parts._replace(values=values.detach()), dense.detach())

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        matrix = ctx.matrix
        (values, dense) = ctx.saved_tensors
        turned = matrix.transposed._replace(values=values.index_select(0, matrix.by_column))
        products = _products_of_rows(matrix, gradient.contiguous(), dense.contiguous())
        return products, _multiply(turned, gradient), None


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, matrix: Sparse, counts: bool) -> Tensor:
        starts = matrix.parts.starts
        rows = matrix.rows
        # Subtracting the row maximum does not change the softmax and avoids overflow.
        largest = torch.segment_reduce(scores, "max", offsets=starts)
        share = (scores - largest.index_select(0, rows)).exp_()
        if counts:
            share *= matrix.parts.values
        share /= torch.segment_reduce(share, "sum", offsets=starts).index_select(0, rows)
        ctx.matrix = matrix
        ctx.save_for_backward(share)
        return share

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        (share,) = ctx.saved_tensors
        matrix = ctx.matrix
        change = share * gradient
        mean = torch.segment_reduce(change, "sum", offsets=matrix.parts.starts)
        return change.addcmul_(share, mean.index_select(0, matrix.rows), value=-1), None, None


def _multiply(parts: Parts, dense: Tensor) -> Tensor:
    """Product of a sparse and a dense matrix; on the CPU three times faster than torch's own."""
    if dense.is_cuda:
        return parts.csr() @ dense
    starts, columns, values, _ = parts
    return F.embedding_bag(
        columns,
        dense.contiguous(),
        starts,
        mode="sum",
        per_sample_weights=values,
        include_last_offset=True,
    )


def _products_of_rows(matrix: Sparse, left: Tensor, right: Tensor) -> Tensor:
    """Dot product of rows i of ``left`` and j of ``right`` for each entry (i, j), ``[nnz]``."""
    if left.is_cuda:
        return (left[matrix.rows] * right[matrix.parts.columns]).sum(1)
    zeros = matrix.parts._replace(values=left.new_zeros(matrix.nnz)).csr()
    return torch.sparse.sampled_addmm(zeros, left, right.T).values()


def _parts(matrix: sp.csr_array, device: torch.device) -> Parts:
    # The product is memory-bound, and 32-bit indices halve its index traffic.
    integer = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    indices = (array.astype(integer, copy=False) for array in (matrix.indptr, matrix.indices))
    starts, columns, values = (torch.from_numpy(a).to(device) for a in (*indices, matrix.data))
    return Parts(starts, columns, values, matrix.shape)

"""A constant sparse matrix, CSR in both directions, times dense ones with a gradient."""
from __future__ import annotations

import warnings
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F


class Parts(NamedTuple):
    """A matrix ``[R, C]`` on its device, entry by entry, sorted by row."""

    starts: Tensor
    """Where each row begins among the entries, and their number, ``[R + 1]``."""
    columns: Tensor
    """The column of each, ``[nnz]``."""
    values: Tensor
    """The value of each, ``[nnz]``."""
    shape: tuple[int, int]

    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor."""
        with warnings.catch_warnings():
            # torch calls CSR a beta and its unchecked indices a risk; scipy keeps them valid.
            warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")
            return torch.sparse_csr_tensor(*self[:3], size=self.shape, check_invariants=False)


class Sparse:
    """A constant matrix ``[R, C]``; ``S @ H`` with dense ``H`` ``[C, K]`` has a gradient for ``H``.

    torch's own product of a CSR matrix transposes it again in every backward pass; here the
    transpose is made once, at the first backward pass.
    """

    def __init__(self, matrix: sp.sparray, device: torch.device | str = "cpu") -> None:
        self.matrix = sp.csr_array(matrix, dtype=np.float32)
        self.matrix.sort_indices()
        self.shape, self.nnz = self.matrix.shape, self.matrix.nnz
        self.device = torch.device(device)
        self._repeated: dict[int, Sparse] = {}

    @property
    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor."""
        return self.parts.csr()

    @property
    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of each entry, both ``[nnz]``, sorted by row."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.matrix.indptr)), self.matrix.indices

    @cached_property
    def parts(self) -> Parts:
        """The matrix on its device."""
        return _parts(self.matrix, self.device)

    @cached_property
    def transposed(self) -> Parts:
        """The transposed matrix on its device."""
        return _parts(self.matrix.T.tocsr(), self.device)

    @cached_property
    def rows(self) -> Tensor:
        """The row of each entry, ``[nnz]``."""
        return torch.repeat_interleave(self.parts.starts.diff(), output_size=self.nnz)

    @cached_property
    def by_column(self) -> Tensor:
        """Where the entries of the transposed matrix lie among those of this one, ``[nnz]``."""
        number = np.arange(self.nnz)
        numbered = sp.csr_array((number, self.matrix.indices, self.matrix.indptr), self.shape)
        return torch.from_numpy(numbered.T.tocsr().data).to(self.device)

    def repeated(self, times: int) -> Sparse:
        r"""The Kronecker product :math:`S \otimes I` ``[R * times, C * times]``, made once.

        It does with each of so many heads what this matrix does, whose states ``[C, times * K]``
        are its ``[C * times, K]``.
        """
        if times == 1:
            return self
        if times not in self._repeated:
            identity = sp.eye_array(times, dtype=np.float32)
            self._repeated[times] = Sparse(sp.kron(self.matrix, identity, "csr"), self.device)
        return self._repeated[times]

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(dense, self)

    def softmax(self, scores: Tensor, counts: bool = False) -> Tensor:
        """Softmax of scores ``[nnz]`` of the entries within each row, none of which is empty.

        With ``counts`` an entry of the matrix says how many there are of it.
        """
        return _Softmax.apply(scores, self, counts)

    def weighted(self, values: Tensor, dense: Tensor) -> Tensor:
        """The product ``[R, K]`` of the matrix that has values ``[nnz]`` in the places of this one
        with ``dense`` ``[C, K]``; it has a gradient for both."""
        return _Weighted.apply(values, dense, self)

    def __getitem__(self, rows: Tensor) -> Sparse:
        return Sparse(self.matrix[rows.cpu().numpy()], self.device)


def dense(matrix: Tensor | Sparse) -> Tensor:
    """A matrix ``[R, C]`` as a dense tensor; one that is dense already comes back as it is."""
    if isinstance(matrix, Tensor):
        return matrix
    return torch.from_numpy(matrix.matrix.toarray()).to(matrix.device)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dense: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        return _multiply(matrix.parts, dense)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return _multiply(ctx.matrix.transposed, gradient), None


class _Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values: Tensor, dense: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values, dense)
        return _multiply(matrix.parts._replace(values=values), dense)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        matrix, (values, dense) = ctx.matrix, ctx.saved_tensors
        turned = matrix.transposed._replace(values=values.index_select(0, matrix.by_column))
        return (_products_of_rows(matrix, gradient.contiguous(), dense.contiguous()),
                _multiply(turned, gradient), None)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, matrix: Sparse, counts: bool) -> Tensor:
        starts, rows = matrix.parts.starts, matrix.rows
        # Subtracting the largest score of a row leaves its softmax as it is and keeps exp in range.
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
        (share,), matrix = ctx.saved_tensors, ctx.matrix
        change = share * gradient
        mean = torch.segment_reduce(change, "sum", offsets=matrix.parts.starts)
        return change.addcmul_(share, mean.index_select(0, matrix.rows), value=-1), None, None


def _multiply(parts: Parts, dense: Tensor) -> Tensor:
    """A sparse matrix times a dense one; on the CPU three times faster than torch's own product."""
    if dense.is_cuda:
        return parts.csr() @ dense
    starts, columns, values, _ = parts
    return F.embedding_bag(columns, dense.contiguous(), starts, mode="sum",
                           per_sample_weights=values, include_last_offset=True)


def _products_of_rows(matrix: Sparse, left: Tensor, right: Tensor) -> Tensor:
    """Row i of ``left`` times row j of ``right`` for each entry (i, j) of a matrix, ``[nnz]``."""
    if left.is_cuda:
        left, right = left[matrix.rows], right[matrix.parts.columns]
        return (left * right).sum(1)
    zeros = matrix.parts._replace(values=left.new_zeros(matrix.nnz)).csr()
    return torch.sparse.sampled_addmm(zeros, left, right.T).values()


def _parts(matrix: sp.csr_array, device: torch.device) -> Parts:
    # 32-bit indices halve the index traffic of a product that is bound by memory.
    integer = np.int32 if max(matrix.nnz, *matrix.shape) < 2 ** 31 else np.int64
    index = (array.astype(integer) for array in (matrix.indptr, matrix.indices))
    arrays = map(torch.from_numpy, (*index, matrix.data))
    return Parts(*(array.to(device) for array in arrays), matrix.shape)

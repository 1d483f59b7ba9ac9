"""An encoder cut in two: lower layers that stay as they are, and upper layers that are trained.

What leaves the lower half is the same in every step, so it can be kept (see `phrasemate.methods.kept`). Of the topmost
layer only the states of the wanted tokens are computed: the others are keys and values, which is a sixth of the work.
The layers are those of `transformers` (BERT family); only the way through them is ours.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from phrasemate.errors import InputError, ModelUnsupported
from phrasemate.methods.backbone import Backbone


def halves(backbone: Backbone, frozen: int, layer: int = 0) -> tuple[Lower, Upper]:
    """The layers up to ``frozen`` (0: the token vectors), and those from there to ``layer`` (0: the last).

    What is above is taken out of the encoder.

    Raises InputError where nothing is between the two, ModelUnsupported for an encoder of another build.
    """
    encoder = backbone.encoder
    layers = list(encoder.encoder.layer)
    layer = layer or len(layers)
    if not 0 <= frozen < layer <= len(layers):
        raise InputError(f"frozen {frozen}, layer {layer}; expected 0 <= frozen < layer <= {len(layers)}")
    if not hasattr(layers[0], "attention") or not hasattr(layers[0].attention, "self"):
        raise ModelUnsupported(f"{type(encoder).__name__}: its layers are built in another way; expected BERT or XLM-R")
    encoder.encoder.layer = nn.ModuleList(layers[:layer])
    encoder.config.num_hidden_layers = layer
    return Lower(encoder.embeddings, layers[:frozen]), Upper(layers[frozen:layer])


class Lower(nn.Module):
    """Token numbers (texts, tokens) -> states after the lower layers (texts, tokens, width), without gradient and
    dropout.
    """

    def __init__(self, embeddings: Any, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embeddings, self.layers = embeddings, nn.ModuleList(layers)
        self.width = int(embeddings.LayerNorm.weight.shape[0])
        self.requires_grad_(False).eval()

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    @torch.no_grad()
    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """``mask`` (texts, tokens) bool: which are no padding."""
        states: Tensor = self.embeddings(input_ids=ids)
        for layer in self.layers:
            states = layer_states(layer, states, states, mask)
        return states

    def digest(self) -> str:
        """SHA-256 of all its weights: equal digests, equal states."""
        found = hashlib.sha256()
        for name, value in sorted(self.state_dict().items()):
            found.update(f"{name} {tuple(value.shape)}\n".encode())
            found.update(value.detach().cpu().float().contiguous().numpy().data)
        return found.hexdigest()


class Upper(nn.Module):
    """States (texts, tokens, width) -> states of the last layer, of one stretch of tokens in each text."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, states: Tensor, mask: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """The states of the tokens ``first`` to ``last`` (texts,), inclusive: (texts, longest, width), and which of
        these there are (texts, longest) bool.
        """
        for layer in list(self.layers)[:-1]:
            states = layer_states(layer, states, states, mask)
        rows = first[:, None] + torch.arange(int((last - first).max()) + 1, device=first.device)  # (texts, longest)
        there = rows <= last[:, None]
        rows = torch.minimum(rows, last[:, None])[:, :, None].expand(-1, -1, states.shape[2])
        return layer_states(self.layers[-1], states.gather(1, rows), states, mask), there


def layer_states(layer: Any, queries: Tensor, states: Tensor, mask: Tensor) -> Tensor:
    """(texts, n, width): the states after a layer of the tokens ``queries`` (texts, n, width) of the texts ``states``
    (texts, tokens, width), of which ``mask`` (texts, tokens) are no padding.
    """
    own = layer.attention.self

    def split(values: Tensor) -> Tensor:  # (texts, heads, n, width of a head)
        return values.reshape(*values.shape[:2], int(own.num_attention_heads), -1).transpose(1, 2)

    q, k, v = split(own.query(queries)), split(own.key(states)), split(own.value(states))
    seen = mask[:, None, None, :]
    if q.is_cuda:
        share = own.dropout.p if own.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=share)
    else:  # faster there for short texts
        scores = (q @ k.transpose(2, 3)).float() * own.attention_head_size**-0.5  # (texts, heads, n, tokens)
        mixed = own.dropout(scores.masked_fill(~seen, -torch.inf).softmax(-1)).to(v.dtype) @ v
    attended = layer.attention.output(mixed.transpose(1, 2).flatten(2), queries)
    made: Tensor = layer.output(layer.intermediate(attended), attended)
    return made

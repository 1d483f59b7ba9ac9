"""``phrasemate model``: inspect, verify, export and unpack model folders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from phrasemate.cli import options
from phrasemate.cli.options import Json, argument, flag, option, print_facts

DIM = 192  # dimensions of a projected phrase vector

app = typer.Typer(
    help="""Inspect, verify and convert model folders.

Examples:
  phrasemate model info                      the bundled model
  phrasemate model verify my-model
  phrasemate model export ./xlm-roberta-base -o my-model""",
)

Folder = Annotated[Path | None, argument("FOLDER", "The model folder (default: the bundled model).")]


Pooling = Literal["ends", "mean", "cls"]
Graph = Literal["auto", "written", "traced", "onnx"]
Precision = Literal["int8", "bf16", "fp16", "fp32"]


@app.command("info")
def info(folder: Folder = None, as_json: Json = False) -> None:
    """Show what a model is and how it was made.

    Examples:
      phrasemate model info
      phrasemate model info my-model --json
    """
    print_facts(_facts(folder), as_json)


@app.command("verify")
def verify(folder: Folder = None, as_json: Json = False) -> None:
    """Check a model for damage.

    Checks the size and the SHA-256 of every file. Exits with 1 if one is wrong.

    Examples:
      phrasemate model verify
      phrasemate model verify my-model
    """
    facts = _facts(folder)
    if as_json:
        typer.echo(json.dumps({"folder": facts["folder"], "hash": facts["hash"], "ok": True}))
    else:
        typer.echo(f"{facts['folder']}: every file is as it was made ({facts['hash'][:12]})")


@app.command("export")
def export(
    folder: Annotated[Path, argument("FOLDER", "Folder of a Hugging Face encoder or a sentence-transformers model.")],
    out: Annotated[Path, option("--out", "-o", "OUT", "The model folder to write.")],
    base: Annotated[
        Path | None, option("--base", "FOLDER", "Average the weights with those before training, of this encoder.")
    ] = None,
    share: Annotated[float, option("--share", "S", "With --base: share of the trained weights, 0 to 1.")] = 1.0,
    layer: Annotated[
        list[int] | None, option("--layer", "N", "Also export the states of this layer (repeatable).", min=0)
    ] = None,
    pooling: Annotated[
        Pooling | None,
        option(
            "--pooling", "ends|mean|cls", "How to pool the token states of a phrase (default: as trained, else ends)."
        ),
    ] = None,
    graph: Annotated[
        Graph,
        option(
            "--graph",
            "auto|written|traced|onnx",
            "Write the graph directly (BERT and XLM-R families), or trace it with torch (any encoder; onnx: for CUDA).",
        ),
    ] = "auto",
    precision: Annotated[Precision, option("--precision", "int8|bf16|fp16|fp32", "Precision of the weights.")] = "int8",
    embedding_bits: Annotated[
        int | None, option("--embedding-bits", "4|8|16", "Bits of a token embedding value (default: 4; traced: 8).")
    ] = None,
    smooth: Annotated[
        bool, flag("--smooth/--no-smooth", "Smooth the activations (SmoothQuant), which makes int8 more accurate.")
    ] = True,
    project: Annotated[
        Path | None, option("--project", "TEXT", "Learn a projection to --dim dimensions from this plain text.")
    ] = None,
    dim: Annotated[int, option("--dim", "N", "Dimensions of a projected phrase vector.", min=1)] = DIM,
    segment_threshold: Annotated[
        float, option("--min-belief", "P", "Trained segmenter: minimum probability of a phrase.")
    ] = 0.7,
    max_words: Annotated[
        int, option("--max-words", "N", "Trained segmenter: maximum words of a phrase; 0: any number.", min=0)
    ] = 6,
    sentence_prefix: Annotated[
        str, option("--sentence-prefix", "TEXT", "Text that the encoder expects before a sentence, such as 'query: '.")
    ] = "",
    context_weight: Annotated[
        float | None,
        option(
            "--context-weight",
            "W",
            "Weight of the sentence in a phrase vector (default: as trained).",
            min=0,
        ),
    ] = None,
    prompt: Annotated[
        str | None, option("--prompt", "NAME", "Default prompt, one of those in a sentence-transformers folder.")
    ] = None,
    name: Annotated[str, option("--name", "NAME", "Name of the model (default: that of OUT).")] = "",
    licence: Annotated[Path | None, option("--licence", "FILE", "Copy this licence to the model folder.")] = None,
    force: Annotated[bool, flag("--force", "Replace OUT if it exists.")] = False,
) -> None:
    """Convert a Hugging Face encoder to a model folder.

    By default, weights are stored in int8 and token embeddings in 4 or 8 bits. A sentence-transformers folder keeps its
    pooling, layers, prompts and maximum length. A folder from phrasemate train keeps its projection and segmenter
    (heads.safetensors). The conversion needs pip install 'phrasemate[train]'; the model folder does not need torch.

    Examples:
      phrasemate model export ./multilingual-e5-small -o my-model
      phrasemate model export ./xlm-roberta-base -o my-model --pooling mean --layer 8 --embedding-bits 8
      phrasemate model export ./LaBSE -o labse --precision fp32
      phrasemate model export ./embeddinggemma-300m -o gemma --prompt Clustering
      phrasemate model export ./my-encoder -o my-model --project corpus.txt --dim 128
      phrasemate model export runs/ccpr/model -o my-model --min-belief 0.8
      phrasemate model export runs/ccpr/model -o my-model --base ./multilingual-e5-small --share 0.8
    """
    from phrasemate.encode.export.export import export_model

    if dim != DIM and project is None:
        raise typer.BadParameter("--dim applies to a projection; give --project TEXT")
    digest = export_model(
        folder,
        out,
        base=base,
        share=share,
        layers=layer or (),
        pooling=pooling,
        sentence_prefix=sentence_prefix,
        context_weight=context_weight,
        prompt=prompt,
        graph=graph,
        precision=precision,
        embedding_bits=embedding_bits,
        smooth=smooth,
        project=_sentences(project) if project else None,
        dim=dim,
        segment_threshold=segment_threshold,
        max_words=max_words or None,
        name=name,
        licence=licence,
        force=force,
    )
    typer.echo(f"{out}: model {digest[:12]}")


@app.command("unpack")
def unpack(
    folder: Folder = None,
    *,
    out: Annotated[Path, option("--out", "-o", "OUT", "The folder to write.")],
    encoder: Annotated[
        Path | None, option("--encoder", "FOLDER", "The encoder that a traced model was exported from.")
    ] = None,
    base: Annotated[
        Path | None, option("--base", "FOLDER", "With --encoder: the encoder that the export averaged it with.")
    ] = None,
) -> None:
    """Convert a model folder back to a Hugging Face encoder, to train it further.

    Writes the weights in float32, the tokenizer and the heads. sentence-transformers can load the folder, too. Needs
    pip install 'phrasemate[train]'.

    Examples:
      phrasemate model unpack -o e5-small-ccpr
      phrasemate model unpack my-model -o my-encoder
      phrasemate model unpack modern -o modern-st --encoder runs/ccpr/model
      phrasemate train ccpr ccpr-small -o run --set model.base=e5-small-ccpr --set model.head=base
    """
    from phrasemate.encode.export.to_hf import unpack_model
    from phrasemate.encode.model_folder import bundled_folder

    if base is not None and encoder is None:
        raise typer.BadParameter("--base is what --encoder was averaged with; give both")
    unpack_model(folder or bundled_folder(), out, encoder, base)
    typer.echo(f"{out}: a Hugging Face encoder")


def _sentences(path: Path) -> Iterator[str]:
    from phrasemate.text import read
    from phrasemate.text.text_file import without_options

    with options.rename_options(lang=""), without_options():
        yield from (sentence.text for document in read(path) for sentence in document.sentences())


def _facts(folder: Path | None) -> dict[str, Any]:
    """Verify a model folder and collect what `model info` shows. Raises ModelDamaged."""
    from phrasemate.encode.heads import head_of, load_heads, segmenter_of
    from phrasemate.encode.model_folder import HEADS, REMEDY, bundled_folder, check_folder
    from phrasemate.encode.scoring import load_confidence, load_scorer
    from phrasemate.errors import ModelDamaged

    folder = folder or bundled_folder()
    config, digest = check_folder(folder)
    path, width = folder / HEADS, int(config["width"])
    arrays = load_heads(path, width, ModelDamaged, REMEDY) if path.exists() else {}
    head, segmenter = head_of(arrays), segmenter_of(arrays, config, folder)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    facts = {"folder": str(folder), "hash": digest, "megabytes": round(size / 1e6, 1), **config}
    if head is not None:
        facts |= {"pooling": "head", "dim": head.dim}
    kind: dict[str, Any] = {"kind": "n-gram"}
    if segmenter is not None:
        kind = {"kind": "learned", "threshold": segmenter.threshold, "max_words": segmenter.max_words}
    sure = load_scorer(folder, digest) is not None or load_confidence(folder, digest) is not None
    confidence = "calibrated" if sure else "none (bench/candidate_scorer.py fits a scorer)"
    return {**facts, "segmenter": kind, "confidence": confidence}

"""Makes one GGUF file from another: the same model, its matrices stored in another type.

Pure NumPy by way of the ``gguf`` package. Knows no cache and no server.
"""

from __future__ import annotations

from pathlib import Path

RECIPE = 1  # raise it when the same source and type would give other bytes

# General.file_type of the GGUF format, by the type of most matrices.
FILE_TYPE = {"F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8}


def requantize(source: Path, target: Path, quant: str) -> None:
    """Write ``target``: ``source`` with every matrix stored as ``quant``, one of FILE_TYPE.

    Vectors, and tensors that are F32 in the source (norms), stay F32, as llama.cpp's own
    quantizer leaves them. Coming from a quantized source this adds rounding and takes none back.

    Raises
    ------
    ImportError
        Where the package ``gguf`` (extra ``demo``) is missing.
    ValueError
        Where the source cannot be read as GGUF or holds a type that ``gguf`` cannot decode.
    OSError
        Where the target cannot be written.
    """
    import gguf  # noqa: PLC0415 - an extra, and slow to import

    try:
        reader = gguf.GGUFReader(source)
        architecture = reader.fields["general.architecture"].contents()
    except (ImportError, OSError):
        raise
    except Exception as exc:  # the reader raises anything on a malformed file
        raise ValueError(f"{source}: not readable as GGUF ({type(exc).__name__}: {exc})") from exc
    writer = gguf.GGUFWriter(target, architecture)
    try:
        _copy_fields(gguf, reader, writer, quant)
        _copy_tensors(gguf, reader, writer, quant)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    except NotImplementedError as exc:
        raise ValueError(f"{source}: holds a type that gguf cannot decode ({exc})") from exc
    finally:
        writer.close()


def _copy_fields(gguf, reader, writer, quant: str) -> None:  # type: ignore[no-untyped-def]
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue  # the writer sets these
        if name == "general.file_type":
            writer.add_uint32(name, FILE_TYPE[quant])
            continue
        is_array = field.types[0] == gguf.GGUFValueType.ARRAY
        sub_type = field.types[-1] if is_array else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=sub_type)


def _copy_tensors(gguf, reader, writer, quant: str) -> None:  # type: ignore[no-untyped-def]
    types = gguf.GGMLQuantizationType
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float32")
        if values.ndim < 2 or tensor.tensor_type == types.F32:
            writer.add_tensor(tensor.name, values, raw_dtype=types.F32)
        else:
            packed = gguf.quants.quantize(values, types[quant])
            writer.add_tensor(tensor.name, packed, raw_dtype=types[quant])

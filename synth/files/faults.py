"""Messages for a person from pydantic's errors: place in the file, id, and what would be right."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from synth.files.json_text import Document, Place

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


def entry_name(section: str, entry: object, field: object) -> str:
    """`` (link 'a')``: the id of an entry, where there is one and it is not the faulty field itself."""
    name = entry.get("id") if isinstance(entry, dict) else None
    return f" ({section.removesuffix('s')} {name!r})" if isinstance(name, str) and field != "id" else ""


def validate[Model: BaseModel](
    document: Document, model: type[Model], items: Mapping[str, type[BaseModel]]
) -> tuple[Model | None, list[str]]:
    """Check a JSON file against a model.

    Parameters
    ----------
    document
        The file.
    model
        What the whole file should be.
    items
        Models of the objects in its lists, by the list's name.

    Returns
    -------
    Model or None
        None if the model refuses the file.
    list of str
        One message per fault of the JSON text and of the model, with place and id.
    """
    faults = [f"{document.place(*path)}{_owner(path, document)}: {reason}" for path, reason in document.faults]
    try:
        return model.model_validate(document.value), faults
    except ValidationError as error:
        said = {path for path, _ in document.faults}
        for detail in error.errors(include_url=False):
            loc = detail["loc"]
            if loc not in said:  # else said already, and better: a number that is not finite
                reason = _reason(detail, items.get(str(loc[0])) if len(loc) > 1 else model)
                faults.append(f"{document.place(*loc)}{_owner(loc, document)}: {reason}")
        return None, faults


def _owner(loc: Place, document: Document) -> str:
    root = document.value
    if len(loc) < 3 or not isinstance(root, dict):
        return ""
    entries = root.get(loc[0])
    # With repeated keys the text may have more places than the value that json kept.
    if not isinstance(entries, list) or not isinstance(loc[1], int) or loc[1] >= len(entries):
        return ""
    return entry_name(str(loc[0]), entries[loc[1]], loc[2])


def _reason(detail: ErrorDetails, model: type[BaseModel] | None) -> str:
    loc, value = detail["loc"], detail["input"]
    field = str(loc[-1]) if loc else ""
    about = model.model_fields.get(field) if model else None
    hint = f"; needed: {about.description}" if about is not None and about.description else ""
    shown = json.dumps(value) if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"
    match detail["type"]:
        case "missing":
            return f"is missing{hint}"
        case "extra_forbidden":
            known = list(model.model_fields) if model else []
            near = difflib.get_close_matches(field, known, n=1)
            return f"is an unknown key; {f'perhaps {near[0]!r} is meant, ' if near else ''}known: {', '.join(known)}"
        case "value_error":
            return str(detail["ctx"]["error"])
        case "model_type" | "dict_type":
            return f"{shown} is not an object {{...}}{hint}"
        case _:
            return f"{shown} is not right: {detail['msg'][0].lower()}{detail['msg'][1:]}{hint}"

#!/usr/bin/env python3
"""kube_schemas.py SWAGGER FOLDER -- JSON Schemas for kubeconform.

SWAGGER is api/openapi-spec/swagger.json of Kubernetes. Writes one file for each
kind, like deployment-apps-v1.json, and the definitions that they refer to.
Properties that Kubernetes does not know are refused.
"""
import json
import os
import sys

DEFINITIONS = "_definitions.json"


def relocate(node):
    """Refers to the file with the definitions."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            node["$ref"] = DEFINITIONS + node["$ref"]
        for each in node.values():
            relocate(each)
    elif isinstance(node, list):
        for each in node:
            relocate(each)


def write(folder, name, content):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(content, file)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        definitions = json.load(file)["definitions"]
    folder = sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    for name, schema in definitions.items():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        if name.endswith(".IntOrString"):
            schema["type"] = ["string", "integer"]
            schema.pop("format", None)
        elif name.endswith(".Quantity"):
            schema["type"] = ["string", "number"]
    relocate(definitions)
    write(folder, DEFINITIONS, {"definitions": definitions})
    for name, schema in definitions.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            parts = [kind["kind"], kind["group"].split(".")[0], kind["version"]]
            write(folder, "-".join(filter(None, parts)).lower() + ".json",
                  {"$ref": f"{DEFINITIONS}#/definitions/{name}"})


main()

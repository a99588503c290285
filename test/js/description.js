// description.js -- validates answers against the API description. A member that
// is not described is a complaint.

import { load } from "./frameworks.js";

const Ajv = load("ajv/dist/2020").default;

// Objects with properties may have no others, for this test only: clients are
// to ignore new members.
function strict(schema) {
    if (Array.isArray(schema))
        return schema.map(strict);
    if (schema === null || typeof schema !== "object")
        return schema;

    const same = Object.fromEntries(
        Object.entries(schema).map(([name, value]) =>
            [name, ["example", "examples"].includes(name) ? value : strict(value)]));

    if (same.properties && same.type === "object" &&
        same.additionalProperties === undefined)
        same.additionalProperties = false;
    return same;
}

export class Description {
    constructor(document) {
        this.document = document;
        this.ajv = new Ajv({ strict: false, allErrors: true });
        this.ajv.addFormat("date-time", true);
        this.ajv.addSchema({ $id: "sluice:",
                             components: strict(document.components) });
        this.seen = new Set();
        this.compiled = new Map();
    }

    resolve(value) {
        if (!value?.$ref)
            return value;
        return value.$ref.slice(2).split("/")
            .reduce((at, name) => at[name], this.document);
    }

    // Complaints about a value.
    validate(schema, value) {
        const text = JSON.stringify(strict(schema))
            .replaceAll('"#/components/', '"sluice:#/components/');

        if (!this.compiled.has(text))
            this.compiled.set(text, this.ajv.compile(JSON.parse(text)));

        const check = this.compiled.get(text);

        return check(value) ? [] : check.errors.map(
            ({ instancePath, message, params }) =>
                `${instancePath} ${message} ${JSON.stringify(params)}`);
    }

    // Path templates with more fixed text come first.
    find(path) {
        const templates = Object.keys(this.document.paths)
            .sort((a, b) => a.split("{").length - b.split("{").length);
        const fits = (template, some) => new RegExp(`^${template
            .replaceAll(".", "\\.").replace(/\{\w+\}/g, some)}$`).test(path);

        return templates.find((one) => fits(one, "[^/]+")) ??
            templates.find((one) => fits(one, ".+"));
    }

    // Complaints about an answer.
    check(method, target, status, type, text) {
        const template = this.find(target.split("?")[0]);
        const operation = this.document.paths[template]?.[method.toLowerCase()];
        const response = this.resolve(operation?.responses[status] ??
                                      operation?.responses.default);
        const media = type.split(";")[0];

        if (!operation || !response)
            return [`${status} is not described`];
        if (status < 300)
            this.seen.add(operation.operationId);
        if (text === "")
            return [];
        if (!response.content?.[media])
            return [`${status} ${media || "without a type"} is not described`];
        return this.#bodies(response.content[media].schema, media, text);
    }

    #bodies(schema, media, text) {
        if (!schema)
            return [];
        if (media === "application/x-ndjson")
            return text.trim().split("\n")
                .flatMap((line) => this.validate(schema, JSON.parse(line)));
        return this.validate(schema, JSON.parse(text));
    }
}

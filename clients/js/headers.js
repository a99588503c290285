// headers.js -- puts the headers of a result on a response. What the application
// has set stays; lists get what is missing in them.

// The names in two lists, each once.
function merge(before, more) {
    const names = new Map();

    for (const name of [before ?? [], more].flat().join(",").split(","))
        if (name.trim() && !names.has(name.trim().toLowerCase()))
            names.set(name.trim().toLowerCase(), name.trim());
    return [...names.values()].join(", ");
}

const isSet = (value) => value !== undefined && value !== null;

/**
 * Sets the headers of a result on a response of node:http, or on a Headers
 * object. A response that has one of them keeps its own, except the type of a
 * denial's body.
 */
export function setHeaders(to, { headers, appendHeaders, ...result }) {
    const isNode = typeof to.setHeader === "function";
    const lists = appendHeaders.map((name) => name.toLowerCase());
    const denied = result.allowed === false || result.ok === false;

    for (const [name, value] of Object.entries(headers)) {
        const low = name.toLowerCase();
        const before = isNode ? to.getHeader(name) : to.get(name);
        const ours = !isSet(before) || denied && low === "content-type";
        const next = lists.includes(low) ? merge(before, value)
            : ours ? value : before;

        if (isNode)
            to.setHeader(name, next);
        else
            to.set(name, next);
    }
}

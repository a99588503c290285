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
export function setHeaders(to, { headers, appendHeaders, allowed, ok }) {
    const isNode = typeof to.setHeader === "function";
    const lists = appendHeaders.map((name) => name.toLowerCase());
    const denied = allowed === false || ok === false;

    for (const name of Object.keys(headers)) {
        const low = name.toLowerCase();
        const value = headers[name];
        const before = isNode ? to.getHeader(name) : to.get(name);
        const ours = !isSet(before) || denied && low === "content-type";

        if (lists.includes(low))
            set(to, isNode, name, isSet(before) ? merge(before, value) : value);
        else if (ours)
            set(to, isNode, name, value);
    }
}

function set(to, isNode, name, value) {
    if (isNode)
        to.setHeader(name, value);
    else
        to.set(name, value);
}

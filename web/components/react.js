// react.js -- thin React components around the elements, for React 18 and 19.
//
// Props with an attribute's name become attributes (upgradeUrl is
// upgrade-url). The prop `answer` of Countdown and SendGuard is a Response of
// fetch() or what readAnswer() returned; a new one is shown. Refs are the
// elements.

import { createElement, forwardRef, useEffect, useImperativeHandle, useRef }
    from "react";

import "./index.js";

const attributeOf = (name) =>
    name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

function attributesOf(props) {
    const attributes = {};

    for (const [name, value] of Object.entries(props))
        if (value === true)
            attributes[attributeOf(name)] = "";
        else if (value !== false && value !== null && value !== undefined)
            attributes[attributeOf(name)] = value;
    return attributes;
}

// `events`: prop -> event. `apply(element, props)` runs when one of `watched`
// has changed.
function wrap(tag, { events = {}, watched = [], apply = () => {} }) {
    const Component = forwardRef((props, ref) => {
        const element = useRef(null);
        const { children, className, messages, ...rest } = props;

        for (const name of [...Object.keys(events), ...watched])
            delete rest[name];
        useImperativeHandle(ref, () => element.current, []);
        useEffect(() => {
            const offs = Object.entries(events)
                .filter(([prop]) => props[prop])
                .map(([prop, name]) => {
                    const run = (event) => props[prop](event);

                    element.current.addEventListener(name, run);
                    return () => element.current?.removeEventListener(name, run);
                });

            return () => offs.forEach((off) => off());
        }, Object.keys(events).map((prop) => props[prop]));
        useEffect(() => {
            if (messages)
                element.current.messages = messages;
        }, [messages]);
        useEffect(() => apply(element.current, props),
                  watched.map((name) => props[name]));
        return createElement(tag, { ...attributesOf(rest), class: className,
                                    ref: element }, children);
    });

    Component.displayName = tag;
    return Component;
}

export const Countdown = wrap("sluice-countdown", {
    events: { onReady: "sluice-ready" }, watched: ["answer"],
    apply: (element, { answer }) => {
        if (answer)
            element.show(answer);
        else
            element.clear();
    },
});

export const Meter = wrap("sluice-meter", {
    watched: ["meter"],
    apply: (element, { meter }) => {
        element.meter = meter ?? null;
    },
});

export const SendGuard = wrap("sluice-send-guard", {
    events: { onReady: "sluice-ready" }, watched: ["answer"],
    apply: (element, { answer }) => {
        if (answer)
            element.learn(answer);
    },
});

export const Queue = wrap("sluice-queue", {
    events: { onSent: "sluice-sent", onStopped: "sluice-stopped" },
});

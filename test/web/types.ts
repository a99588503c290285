// A program that uses the types of web/components.
import { Answer, Meter, SendQueue, readAnswer, setMessages, stateOf }
    from "sluice-components";
import { Countdown, Queue, SendGuard } from "sluice-components/react";

const countdown = document.createElement("sluice-countdown");
const response: Response = await fetch("/api");
const answer: Answer = await countdown.show(response);
const wait: number | null = answer.waitMs;
const meter: Meter = { name: "minutes", used: 1, limit: null };

document.createElement("sluice-meter").meter = meter;
await document.createElement("sluice-send-guard").learn(await readAnswer(response));
document.createElement("sluice-queue").add({ url: "/x", body: { id: 1 } });
setMessages("fr", { left: { one: "{n} requête", other: "{n} requêtes" } });

const queue = new SendQueue("q", { random: () => 0 });
const states: string[] = queue.items.map((item) => item.state);

Countdown({ answer, upgradeUrl: "/plans" });
SendGuard({ name: "a", onReady: (event) => event.preventDefault() });
Queue({ name: "q", onStopped: ({ detail }) => detail.label });
console.log(wait, states, stateOf(1, 2));

// @ts-expect-error: a queue needs its name
Queue({});
// @ts-expect-error: a request needs a url
queue.add({ label: "x" });

// index.js -- all elements, and the parts that they are made of.

export { monotonic, parseAnswer, readAnswer, safeLink } from "./answer.js";
export { Deadline, countDown } from "./clock.js";
export { SluiceCountdown } from "./countdown.js";
export { messagesOf, say, setMessages } from "./messages.js";
export { SluiceMeter, stateOf } from "./meter.js";
export { SluiceQueue } from "./queue.js";
export { SluiceSendGuard } from "./send-guard.js";
export { SendQueue } from "./send-queue.js";
export { LimitState } from "./shared.js";

// react.d.ts -- the types of react.js.

import type { ForwardRefExoticComponent, ReactNode, RefAttributes } from "react";

import type { Answer, Messages, Meter as MeterData, QueueItem, SluiceCountdown,
              SluiceMeter, SluiceQueue, SluiceSendGuard } from "./index.js";

interface Common {
    id?: string;
    className?: string;
    lang?: string;
    messages?: Messages;
    children?: ReactNode;
}

type Wrapped<Props, Element> =
    ForwardRefExoticComponent<Props & Common & RefAttributes<Element>>;

export const Countdown: Wrapped<{
    answer?: Response | Answer | null;
    upgradeUrl?: string;
    message?: string;
    retryAfter?: number;
    kind?: "rate" | "plan" | "unavailable" | "other";
    onReady?: (event: CustomEvent) => void;
}, SluiceCountdown>;

export const Meter: Wrapped<{
    meter?: MeterData | null;
    label?: string;
    used?: number;
    limit?: number;
    unit?: string;
    plan?: string;
    reset?: string;
    exhausted?: string;
    overage?: number;
    credits?: number;
    upgradeUrl?: string;
    upgradeTarget?: string;
    compact?: boolean;
}, SluiceMeter>;

export const SendGuard: Wrapped<{
    name: string;
    low?: number;
    answer?: Response | Answer | null;
    onReady?: (event: CustomEvent) => void;
}, SluiceSendGuard>;

export const Queue: Wrapped<{
    name: string;
    skipStopped?: boolean;
    onSent?: (event: CustomEvent<QueueItem>) => void;
    onStopped?: (event: CustomEvent<QueueItem>) => void;
}, SluiceQueue>;

// fastify.d.ts -- a plugin for Fastify.

import type { GateOptions, Passage } from "./gate.js";
import type { Result } from "./index.js";

export { forwardedFor } from "./gate.js";

export interface Options extends GateOptions<any, any> {
    /** The hook that checks; default onRequest. With preHandler, `request.user`
     * and the body are there. */
    hook?: "onRequest" | "preParsing" | "preValidation" | "preHandler" |
        undefined;
    /** Answers a denied request instead of the policy. */
    deny?: ((result: Result, request: any, reply: any) => unknown) | undefined;
}

// @ts-ignore: from here Fastify is not found if this package is a link
declare module "fastify" {
    interface FastifyRequest {
        /** Null if the request was skipped. */
        sluice: Passage | null;
    }

    interface FastifyContextConfig {
        sluice?: false | Options | undefined;
    }
}

/** The plugin. A route may set `config: { sluice: false }`, or options of its
 * own: `config: { sluice: { cost: 5 } }`. */
export function sluice(fastify: any, options: Options): Promise<void>;
export default sluice;

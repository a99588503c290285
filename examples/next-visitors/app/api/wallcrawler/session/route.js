import { withSluice } from "sluice-client/next";

import { limits } from "../../../../lib/limits.js";

export const POST = withSluice(limits, async () =>
    Response.json({ session: crypto.randomUUID() }));

import { withSluice } from "sluice-client/next";

import { limits } from "../../../lib/limits.js";

export const GET = withSluice(limits, async () => Response.json({ found: [] }));

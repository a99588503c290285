// limits.js -- who asks: a signed-in user, or a visitor by address and browser.
// The cookie stands for your sign-in.

import { forwardedFor, gate } from "sluice-client/next";

export const limits = gate({
    user: (request) => request.cookies.get("user")?.value,
    ip: forwardedFor(1),
});

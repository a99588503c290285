// limits.js -- who asks. The cookie stands for your sign-in: user.org.plan.

import { forwardedFor, gate } from "sluice-client/next";

function session(request) {
    const [user, org, plan] =
        (request.cookies.get("session")?.value ?? "").split(".");

    return { user, org, plan };
}

const who = {
    user: (request) => session(request).user,
    org: (request) => session(request).org,
    plan: (request) => session(request).plan,
    ip: forwardedFor(1),
    onFailure: "deny",
};

export const limits = gate(who);

/** A route that holds tokens of the organisation until its answer has ended. */
export const tokenLimits = (tokens) => gate({
    ...who, cost: { assistant_tokens: tokens }, hold: "60s",
});

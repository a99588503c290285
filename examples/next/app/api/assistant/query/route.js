// The expected tokens are held; those that the answer used are paid.

import { withSluice } from "sluice-client/next";

import { tokenLimits } from "../../../../lib/limits.js";

const EXPECTED = 2000;

async function ask(question) {
    return { answer: question.toUpperCase(), tokens: 40 * question.length };
}

export const POST = withSluice(tokenLimits(EXPECTED), async (
    request, context, passage) => {
    const { question } = await request.json();
    const { answer, tokens } = await ask(question);

    passage.setCost({ assistant_tokens: tokens });
    return Response.json({ answer });
});

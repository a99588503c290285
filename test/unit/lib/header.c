/* header.c -- the header stands alone: as C99, as C++11, and twice. */
#include <sluice.h>

int main(void)
{
    struct sluice_limit limit = {0, SLUICE_TOKEN_BUCKET, 0, 0, 0, 0, 0, 0};
    struct sluice_options options = {
        0, 0, 0, 0, 0, SLUICE_FULL_ALLOW, SLUICE_DAMAGE_SET_ASIDE, 0, 0, 0, 0};
    struct sluice *gate = 0;

    limit.name = "a";
    limit.rate = "5/min";
    options.limits = &limit;
    options.limit_count = 1;
    if (sluice_open(&options, &gate) != SLUICE_OK)
        return 1;
    gate = sluice_close(gate);
    return gate ? 1 : 0;
}

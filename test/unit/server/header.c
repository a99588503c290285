/* header.c -- the header stands alone: as C99, as C++11, and twice. */
#include <sluice_policy.h>
/* again */
#include <sluice_policy.h>

int main(void)
{
    struct sluice_decision *decision = sluice_decision_new();
    struct sluice_request request;
    int status = sluice_decision_status(decision);

    request.path = "/";
    sluice_decision_free(decision);
    return request.path && status == 0 ? 0 : 1;
}

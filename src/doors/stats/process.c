/* process.c -- what the kernel says of this process.
 *
 * Whatever it does not say (a /proc that is not there, no descriptor left to
 * open it with) is left out of the page rather than shown as 0.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/metrics_int.h"

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * SL_S + (uint64_t)t.tv_usec * SL_US;
}

static uint64_t cpu_time(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage))
        return SL_UNKNOWN;
    return ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
}

static uint64_t max_fds(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return SL_UNKNOWN;
    return limit.rlim_cur;
}

/* O(descriptors): a millisecond for ten thousand of them, once a scrape. */
static uint64_t open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    uint64_t count = 0;

    if (!folder)
        return SL_UNKNOWN;
    while ((entry = readdir(folder)))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* the folder's own */
}

/* The first two numbers of statm: pages of address space, pages in RAM. */
static void memory(uint64_t *resident, uint64_t *address_space)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t all, here;
    char text[128];
    ssize_t len;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    *resident = *address_space = SL_UNKNOWN;
    if (fd < 0)
        return;
    len = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &all, &here) != 2)
        return;
    *address_space = all * page;
    *resident = here * page;
}

void sl_process_read(uint64_t ret[PROCESS_VALUES])
{
    ret[PROCESS_CPU] = cpu_time();
    ret[PROCESS_MAX_FDS] = max_fds();
    ret[PROCESS_OPEN_FDS] = open_fds();
    memory(&ret[PROCESS_RESIDENT], &ret[PROCESS_VIRTUAL]);
}

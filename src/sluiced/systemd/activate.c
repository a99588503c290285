/* activate.c -- sockets that systemd opened for us.
 *
 * They begin at descriptor 3. LISTEN_PID says whom they are for: a process
 * that was started by one that had them must not take them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sluiced/systemd/systemd.h"

#define FIRST 3

static void forget(void)
{
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

/* "http:admin" to names. systemd calls a socket "unknown" if its unit does
 * not; unless FileDescriptorName= is set it is the unit's own name. */
static void read_names(struct sl_activated *a, const char *names)
{
    for (unsigned i = 0; i < a->count; i++) {
        size_t len = names ? strcspn(names, ":") : 0;

        snprintf(a->names[i], sizeof(a->names[i]), "%.*s", (int)len,
                 names ? names : "");
        names = names && names[len] ? names + len + 1 : NULL;
    }
    if (a->count == 1 && strcmp(a->names[0], "admin") != 0)
        snprintf(a->names[0], sizeof(a->names[0]), "http");
}

static int check_names(const struct sl_activated *a, struct sl_diag *diag)
{
    for (unsigned i = 0; i < a->count; i++) {
        if (strcmp(a->names[i], "http") != 0 &&
            strcmp(a->names[i], "admin") != 0)
            return sl_refuse(diag, SLUICE_ECONF,
                             "systemd passed a socket named \"%s\"; write "
                             "FileDescriptorName=http or =admin in its unit",
                             a->names[i]);
        for (unsigned j = 0; j < i; j++)
            if (strcmp(a->names[i], a->names[j]) == 0)
                return sl_refuse(diag, SLUICE_ECONF,
                                 "systemd passed two sockets named \"%s\"; a "
                                 "listener needs exactly one",
                                 a->names[i]);
    }
    return 0;
}

int sl_activated_read(struct sl_activated *ret, struct sl_diag *diag)
{
    struct sl_activated a = {0};
    uint64_t count = sl_systemd_number("LISTEN_FDS");
    bool ours = sl_systemd_number("LISTEN_PID") == (uint64_t)getpid();
    int err = 0;

    if (ours && count > SL_ACTIVATED)
        err = sl_refuse(diag, SLUICE_ECONF,
                        "systemd passed %u sockets; at most two are supported, "
                        "http and admin",
                        count < 1000 ? (unsigned)count : 1000);
    if (!err && ours) {
        a.count = (unsigned)count;
        for (unsigned i = 0; i < a.count; i++) {
            a.fds[i] = FIRST + (int)i;
            fcntl(a.fds[i], F_SETFD, FD_CLOEXEC);
        }
        read_names(&a, getenv("LISTEN_FDNAMES"));
        err = check_names(&a, diag);
    }
    forget();
    if (!err)
        *ret = a;
    return err;
}

int sl_activated_find(const struct sl_activated *activated, const char *name)
{
    for (unsigned i = 0; i < activated->count; i++)
        if (strcmp(activated->names[i], name) == 0)
            return activated->fds[i];
    return -1;
}

/* demo.c -- what runs when nobody has written a policy yet. */
#include "sluiced/demo.h"

#include <string.h>

const char sl_demo_policy[] =
    "# The demo of sluiced. 'sluice init' writes a sample policy.\n"
    "sluice: 1\n"
    "env: demo\n"
    "\n"
    "plans:\n"
    "  default: free\n"
    "  free: {}\n"
    "  pro: {}\n"
    "\n"
    "identity:\n"
    "  user: [header.x-user-id]\n"
    "  plan: [header.x-plan]\n"
    "  trusted_proxies: [127.0.0.0/8, \"::1\"]\n"
    "\n"
    "limits:\n"
    "  per-address:             # one allowance for each address\n"
    "    kind: sliding-window\n"
    "    per: ip\n"
    "    missing: skip          # asked over a unix socket, without an "
    "address\n"
    "    rate: 100/min\n"
    "  per-user:\n"
    "    kind: token-bucket\n"
    "    per: user\n"
    "    missing: anonymous\n"
    "    rate: { free: 5/min, pro: 60/min burst 20 }\n"
    "    deny: { message: \"{limit} a minute; again in {retry_after} s.\" }\n"
    "\n"
    "routes:\n"
    "  - match: /**\n"
    "    endpoint: demo\n"
    "    limits: [per-user, per-address]\n"
    "    report: per-user\n"
    "\n"
    "default: [per-user, per-address]\n";

/* "127.0.0.1:8080" to `curl ... http://127.0.0.1:8080`. */
static void print_url(FILE *out, const char *address, const char *path)
{
    if (strncmp(address, "unix:", 5) == 0)
        fprintf(out, "--unix-socket %s http://localhost%s", address + 5, path);
    else if (strncmp(address, "*:", 2) == 0)
        fprintf(out, "http://127.0.0.1%s%s", address + 1, path);
    else
        fprintf(out, "http://%s%s", address, path);
}

static void print_tries(FILE *out, const char *http)
{
    fputs("Check a request of the user ann, who is allowed five per minute:\n"
          "\n"
          "  curl -s ",
          out);
    print_url(out, http, "/v1/check");
    fputs(" -d '{\"method\":\"GET\",\"path\":\"/search\",\"user\":\"ann\"}'\n"
          "\n"
          "Check a request as a proxy does (forward auth):\n"
          "\n"
          "  curl -i ",
          out);
    print_url(out, http, "/v1/auth");
    fputs(" -H 'X-Original-URI: /search' -H 'X-User-Id: bob'\n\n", out);
}

/* "127.0.0.1:6380" to `redis-cli ...`. */
static void print_redis(FILE *out, const char *address)
{
    const char *port = strrchr(address, ':');

    fputs("Check with a Redis client, with the rate in the command:\n"
          "\n"
          "  redis-cli ",
          out);
    if (strncmp(address, "unix:", 5) == 0)
        fprintf(out, "-s %s", address + 5);
    else
        fprintf(out, "-p %s", port ? port + 1 : "6380");
    fputs(" CL.THROTTLE carol 15 30 60\n\n", out);
}

void sl_demo_print(FILE *out, const char *http, const char *resp,
                   const char *admin, const char *state)
{
    fputs("sluiced runs a demo policy: 5 requests per minute for each user (60 "
          "on the\n"
          "plan \"pro\"), 100 for each address. ",
          out);
    if (state)
        fprintf(out,
                "State is kept in %s.\n"
                "\n",
                state);
    else
        fputs("State is kept in memory only.\n"
              "\n",
              out);
    if (http)
        fprintf(out, "  HTTP API     %s\n", http);
    if (resp)
        fprintf(out, "  Redis (RESP) %s\n", resp);
    if (admin)
        fprintf(out, "  admin        %s\n", admin);
    fputc('\n', out);
    if (http)
        print_tries(out, http);
    if (resp)
        print_redis(out, resp);
    if (admin) {
        fputs("Read the metrics:\n"
              "\n"
              "  curl -s ",
              out);
        print_url(out, admin, "/metrics");
        fputs("\n\n", out);
    }
    fputs(
        "Next: 'sluice init' writes a sample policy, sluice.yaml. Run it with\n"
        "'sluiced -c sluice.yaml'. Ctrl-C stops the demo.\n",
        out);
    fflush(out);
}

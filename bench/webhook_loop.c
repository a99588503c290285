/* webhook_loop.c -- posts a body again and again by libcurl's multi interface:
 * a sender of webhooks without a queue, for bench/webhooks.py.
 *
 *   webhook-loop COUNT AT-A-TIME URL...
 *
 * The URLs take turns, as the endpoints of a daemon do. It prints the seconds
 * of the processor per request, and those of the clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <curl/curl.h>

#define BODY "{\"order\":7,\"total\":1200,\"currency\":\"EUR\"}"

static unsigned long count, begun, good;
static char **urls;
static int url_count;

static size_t drop(const char *data, size_t size, size_t times, void *ctx)
{
    (void)data;
    (void)ctx;
    return size * times;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double used(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void begin(CURLM *multi, CURL *easy)
{
    if (begun == count)
        return;
    curl_easy_setopt(easy, CURLOPT_URL, urls[begun % (unsigned)url_count]);
    begun++;
    curl_multi_add_handle(multi, easy);
}

static CURL *make(struct curl_slist *headers)
{
    CURL *easy = curl_easy_init();

    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)sizeof(BODY) - 1);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, BODY);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 15000L);
    return easy;
}

static void run(CURLM *multi)
{
    int running = 1, left;
    CURLMsg *m;

    while (running > 0 || good < begun) {
        curl_multi_perform(multi, &running);
        while ((m = curl_multi_info_read(multi, &left))) {
            CURL *easy = m->easy_handle;
            long status = 0;

            if (m->msg != CURLMSG_DONE)
                continue;
            curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
            if (m->data.result != CURLE_OK || status != 200) {
                fprintf(stderr, "webhook-loop: %s, status %ld\n",
                        curl_easy_strerror(m->data.result), status);
                exit(1);
            }
            good++;
            curl_multi_remove_handle(multi, easy);
            begin(multi, easy);
            running = 1;
        }
        if (good < count)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
}

int main(int argc, char **argv)
{
    static const char *const fields[] = {
        "content-type: application/json",
        "webhook-id: msg_1a1e921689f9317cae0a3ae6f2722cb",
        "webhook-timestamp: 1794912643",
        "webhook-signature: v1,bzB//lbcyCQFSFqitKMvUH+UjH5tfWX10swsE3q0QT0=",
    };
    struct curl_slist *headers = NULL;
    CURLM *multi = curl_multi_init();
    unsigned long at_a_time;
    double began, cpu;

    if (argc < 4 || !multi)
        return 64;
    count = strtoul(argv[1], NULL, 10);
    at_a_time = strtoul(argv[2], NULL, 10);
    urls = argv + 3;
    url_count = argc - 3;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        headers = curl_slist_append(headers, fields[i]);
    began = now();
    cpu = used();
    for (unsigned long i = 0; i < at_a_time; i++)
        begin(multi, make(headers));
    run(multi);
    printf("%.9f %.3f\n", (used() - cpu) / (double)count, now() - began);
    return 0;
}

#define _POSIX_C_SOURCE 200809L
#include "hub.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "reply.h"
#include "settings.h"
#include "tools/cli/cli.h"

enum {
    TRIES = 5,
    TRIES_CONNECT = 2, /* of a host that cannot be reached */
    REDIRECTS = 5,
    HEAD_MOST = 65536,    /* bytes of the head of a reply */
    ERROR_MOST = 1 << 20, /* bytes of the body of an error, which are not read */
    WAIT_MOST = 300,      /* seconds */
    AHEAD = 1 << 20,      /* bytes after which the tries are counted anew */
};

struct hub {
    CURL *curl;
    char endpoint[PULL_PATH], token[SETTINGS_TOKEN];
};

/* One try. */
struct exchange {
    struct hub *h;
    const struct hub_sink *sink;
    char url[PULL_URL];
    struct reply reply;
    uint64_t from;
    long status;
    size_t head, error;  /* bytes */
    bool begun, stopped; /* stopped: the sink has printed why */
    const char *broken;  /* why the reply cannot be used; NULL: it can */
};

static long status_of(CURL *curl)
{
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static bool has_file(long status) { return status == 200 || status == 206; }

static bool is_redirect(long status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* ------------------------------------------------------------------------------------ callbacks */

static size_t on_header(char *p, size_t one, size_t n, void *user)
{
    struct exchange *x = user;
    x->head += one * n;
    if (x->head > HEAD_MOST) {
        x->broken = "a reply with too many headers";
        return 0;
    }
    reply_add_line(&x->reply, p, n);
    return one * n;
}

/* Tells the sink where the bytes begin. A server may ignore the range, and send all bytes. */
static bool begin_body(struct exchange *x, long status)
{
    uint64_t at = status != 206 ? 0 : x->reply.has_at ? x->reply.at : UINT64_MAX;
    if (x->begun)
        return true;
    if (at && at != x->from) {
        x->broken = "a range that nobody asked for";
        return false;
    }
    x->begun = true;
    x->stopped = !x->sink->begin(x->sink->user, at);
    return !x->stopped;
}

static size_t on_body(char *p, size_t one, size_t n, void *user)
{
    struct exchange *x = user;
    long status = status_of(x->h->curl);
    if (!has_file(status)) {
        x->error += one * n;
        return x->error > ERROR_MOST ? 0 : one * n;
    }
    if (!begin_body(x, status))
        return 0;
    x->stopped = !x->sink->take(x->sink->user, p, one * n);
    return x->stopped ? 0 : one * n;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)user, (void)a, (void)b, (void)c, (void)d;
    return cli_interrupted();
}

/* ------------------------------------------------------------------------------------ a request */

static bool same_part(CURLU *a, CURLU *b, CURLUPart part, unsigned flags)
{
    char *x = NULL, *y = NULL;
    bool same = curl_url_get(a, part, &x, flags) == CURLUE_OK &&
                curl_url_get(b, part, &y, flags) == CURLUE_OK && strcasecmp(x, y) == 0;
    curl_free(x);
    curl_free(y);
    return same;
}

/* Whether a URL leads to the hub itself: its scheme, host and port. */
static bool is_hub(const struct hub *h, const char *url)
{
    CURLU *a = curl_url(), *b = curl_url();
    bool is = a && b && curl_url_set(a, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_set(b, CURLUPART_URL, h->endpoint, 0) == CURLUE_OK &&
              same_part(a, b, CURLUPART_SCHEME, 0) && same_part(a, b, CURLUPART_HOST, 0) &&
              same_part(a, b, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    curl_url_cleanup(a);
    curl_url_cleanup(b);
    return is;
}

static bool add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append(*list, line);
    if (more)
        *list = more;
    return more;
}

/* The headers of a request to this URL: only the hub gets the token. */
static struct curl_slist *headers_for(const struct hub *h, const char *url)
{
    struct curl_slist *list = NULL;
    char line[SETTINGS_TOKEN + 32];
    bool ok = add_header(&list, "Accept-Encoding: identity");
    snprintf(line, sizeof line, "Authorization: Bearer %s", h->token);
    if (ok && *h->token && is_hub(h, url))
        ok = add_header(&list, line);
    if (!ok) {
        curl_slist_free_all(list);
        list = NULL;
    }
    return list;
}

/* The options of a request, except its headers. The program follows redirects itself. */
static void set_options(struct exchange *x, CURL *c)
{
    bool safe = strncmp(x->h->endpoint, "https:", 6) == 0;
    char agent[64], range[32];
    snprintf(agent, sizeof agent, "tuffet/%s", tft_version());
    snprintf(range, sizeof range, "%" PRIu64 "-", x->from);
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, x->url);
    curl_easy_setopt(c, CURLOPT_USERAGENT, agent);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, safe ? "https" : "http,https");
    curl_easy_setopt(c, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, settings_patience());
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, settings_patience());
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    if (x->from)
        curl_easy_setopt(c, CURLOPT_RANGE, range);
}

static CURLcode request(struct exchange *x)
{
    CURL *c = x->h->curl;
    struct curl_slist *headers = headers_for(x->h, x->url);
    if (!headers)
        return CURLE_OUT_OF_MEMORY;
    x->head = x->error = 0;
    set_options(x, c);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    CURLcode code = curl_easy_perform(c);
    x->status = status_of(c);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    return code;
}

/* Requests the URL, and the URLs that it leads to. */
static CURLcode follow(struct exchange *x)
{
    for (int hops = 0; hops <= REDIRECTS; hops++) {
        CURLcode code = request(x);
        char *to = NULL;
        if (code != CURLE_OK || !is_redirect(x->status))
            return code;
        curl_easy_getinfo(x->h->curl, CURLINFO_REDIRECT_URL, &to);
        if (!to || strlen(to) >= sizeof x->url) {
            x->broken = "a redirect that leads nowhere";
            return CURLE_OK;
        }
        strcpy(x->url, to);
    }
    x->broken = "too many redirects";
    return CURLE_OK;
}

/* --------------------------------------------------------------------------------------- errors */

static bool cannot_connect(CURLcode code)
{
    return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT;
}

/* Whether a broken connection may hold next time. */
static bool may_pass(CURLcode code)
{
    return cannot_connect(code) || code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR ||
           code == CURLE_SEND_ERROR || code == CURLE_GOT_NOTHING ||
           code == CURLE_OPERATION_TIMEDOUT || code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM;
}

/* Whether the same request may succeed later. Links to other hosts are valid for a while. */
static bool is_passing(const struct exchange *x)
{
    long s = x->status;
    return s == 408 || s == 429 || s == 500 || s == 502 || s == 503 || s == 504 ||
           (s == 403 && !is_hub(x->h, x->url)) || (s == 416 && x->from);
}

/* Seconds before the next try; 0: there is none. tried: tries so far. */
static unsigned wait_after(const struct exchange *x, CURLcode code, unsigned tried)
{
    if (x->stopped || x->broken || tried >= (cannot_connect(code) ? TRIES_CONNECT : TRIES) ||
        !(code == CURLE_OK ? is_passing(x) : may_pass(code)))
        return 0;
    if (code == CURLE_OK && x->status == 429 && x->reply.has_wait)
        return x->reply.wait > WAIT_MOST ? 0 : x->reply.wait ? x->reply.wait : 1;
    return tried < 4 ? 1U << (tried - 1) : 8;
}

static void be_quiet(const struct hub_sink *sink)
{
    if (sink->quiet)
        sink->quiet(sink->user);
}

/* false: Ctrl-C came. */
static bool pause_for(unsigned seconds, const struct hub_sink *sink)
{
    const struct timespec tenth = {.tv_nsec = 100000000};
    if (seconds > 10)
        be_quiet(sink);
    if (seconds > 10)
        fprintf(stderr, "tuffet: the hub asks to wait for %u s\n", seconds);
    for (unsigned i = 0; i < 10 * seconds && !cli_interrupted(); i++)
        nanosleep(&tenth, NULL);
    return !cli_interrupted();
}

static int fail_gated(const struct exchange *x, const char *repo)
{
    return cli_fail("%s: its authors ask for consent to a licence: agree on its page, %s/%s, "
                    "then set HF_TOKEN to a token of the same account",
                    repo, x->h->endpoint, repo);
}

static int fail_status(const struct exchange *x, const char *repo)
{
    const struct reply *r = &x->reply;
    if (!is_hub(x->h, x->url))
        return cli_fail("%s: the host of its files answers with status %ld", repo, x->status);
    if (strcmp(r->code, "GatedRepo") == 0)
        return fail_gated(x, repo);
    if (x->status == 401 && strstr(r->message, "nvalid credentials"))
        return cli_fail("%s: the hub refuses the token: check HF_TOKEN, or the file of the token",
                        repo);
    if (strstr(r->message, "is disabled"))
        return cli_fail("%s: the hub has disabled it", repo);
    if (strcmp(r->code, "EntryNotFound") == 0 || strcmp(r->code, "RevisionNotFound") == 0)
        return cli_fail("%s: the hub lists a file, but has it no longer: try again", repo);
    if (x->status == 401 || x->status == 404)
        return cli_fail("%s: the hub has no such repository, or it is private and needs a token "
                        "(HF_TOKEN)",
                        repo);
    if (x->status == 429)
        return cli_fail("%s: the hub takes no more requests for now: try again in %u s, or with a "
                        "token (HF_TOKEN)",
                        repo, r->has_wait ? r->wait : WAIT_MOST);
    return cli_fail("%s: the hub answers with status %ld%s%s", repo, x->status,
                    *r->message ? ": " : "", r->message);
}

static int fail(const struct exchange *x, CURLcode code, const char *repo)
{
    if (x->stopped)
        return CLI_FAILED;
    be_quiet(x->sink);
    if (x->broken)
        return cli_fail("%s: the hub sends %s", repo, x->broken);
    if (code != CURLE_OK)
        return cli_fail("%s: the hub at %s cannot be reached: %s", repo, x->h->endpoint,
                        curl_easy_strerror(code));
    return fail_status(x, repo);
}

/* -------------------------------------------------------------------------------- the interface */

int hub_get(struct hub *h, const char *url, const char *repo, const struct hub_sink *sink,
            char next[PULL_URL])
{
    struct exchange x;
    for (unsigned tried = 1;; tried++) {
        x = (struct exchange){.h = h, .sink = sink, .from = sink->held(sink->user)};
        snprintf(x.url, sizeof x.url, "%s", url);
        CURLcode code = follow(&x);
        if (cli_interrupted())
            return CLI_INTERRUPTED;
        bool whole = code == CURLE_OK && !x.broken && has_file(x.status);
        if (whole && begin_body(&x, x.status)) /* a file may be empty */
            break;
        if (sink->held(sink->user) >= x.from + AHEAD)
            tried = 1;
        unsigned wait = wait_after(&x, code, tried);
        if (!wait)
            return fail(&x, code, repo);
        if (x.status == 416 && !sink->begin(sink->user, 0))
            return CLI_FAILED;
        if (!pause_for(wait, sink))
            return CLI_INTERRUPTED;
    }
    if (next)
        strcpy(next, x.reply.next);
    return CLI_OK;
}

const char *hub_endpoint(const struct hub *h) { return h->endpoint; }

int hub_open(struct hub **out)
{
    struct hub *h = calloc(1, sizeof *h);
    *out = h;
    if (!h || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(h);
        *out = NULL;
        return cli_fail("out of memory");
    }
    h->curl = curl_easy_init();
    if (!h->curl)
        return cli_fail("out of memory");
    if (!settings_endpoint(h->endpoint))
        return cli_fail("HF_ENDPOINT must begin with https:// or http://");
    if (!settings_token(h->token))
        return cli_fail("HF_TOKEN, or the file of the token, holds no token");
    return CLI_OK;
}

void hub_close(struct hub *h)
{
    if (!h)
        return;
    curl_easy_cleanup(h->curl);
    curl_global_cleanup();
    free(h);
}

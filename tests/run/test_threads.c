/* Threads: teams, and a program's own threads and processes beside them: fork, run out of threads,
   use another session from a callback, change its floating-point environment. */
#define _GNU_SOURCE /* sched_setaffinity */
#include "test.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fed.h"
#include "port/port.h"

enum { MANY = 5, BARRIERS = 200 };
enum { PATIENCE = 300 }; /* seconds, for work that should take less than one */

static bool threaded(void)
{
    return tft_port_threaded();
}

/* ---- teams */

struct seen {
    int calls[MANY], n;
    atomic_int sum[BARRIERS];
    int early[MANY]; /* sums that a thread found incomplete */
};

/* Every thread adds to each sum, and finds it complete after the barrier. */
static void count(void *arg, int tid, int n)
{
    struct seen *s = arg;
    s->calls[tid]++;
    if (tid == 0)
        s->n = n;
    for (int i = 0; i < BARRIERS; i++) {
        s->sum[i] += tid + 1;
        tft_port_barrier();
        if (s->sum[i] != n * (n + 1) / 2)
            s->early[tid]++;
    }
}

static struct seen counted(int n)
{
    struct seen s = {0};
    tft_port_team(n, count, &s);
    return s;
}

static bool in_step(struct seen s)
{
    int early = 0;
    for (int i = 0; i < MANY; i++)
        early += s.early[i];
    return early == 0 && s.n > 0;
}

static void every_thread_once_and_in_step(void **state)
{
    (void)state;
    for (int n = 1; n <= MANY; n++) {
        struct seen s = counted(n);
        assert_int_equal(s.n, threaded() ? n : 1);
        assert_true(in_step(s));
        for (int i = 0; i < MANY; i++)
            assert_int_equal(s.calls[i], i < s.n);
    }
}

static void *count_often(void *arg)
{
    bool *good = arg;
    for (int i = 0; i < 50; i++) {
        struct seen s = counted(1 + i % 3);
        *good = *good && in_step(s) && s.n == (threaded() ? 1 + i % 3 : 1);
    }
    return NULL;
}

static void teams_of_several_threads_at_once(void **state)
{
    (void)state;
    pthread_t thread[3];
    bool good[3] = {true, true, true};
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, count_often, &good[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        assert_true(good[i]);
    }
}

static void begin_another(void *arg, int tid, int n)
{
    struct seen *inner = arg;
    tft_port_barrier();
    if (tid == n - 1)
        *inner = counted(3);
    tft_port_barrier(); /* of the outer team, which the inner one left as it was */
}

static void a_team_inside_of_a_team_has_one_thread(void **state)
{
    (void)state;
    struct seen inner = {0};
    tft_port_team(3, begin_another, &inner);
    assert_true(in_step(inner));
    assert_int_equal(inner.n, 1);
}

static void not_more_threads_than_cpus(void **state)
{
    (void)state;
    cpu_set_t was, one;
    assert_int_equal(sched_getaffinity(0, sizeof was, &was), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &was))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    tft_port_crowds = false;
    assert_int_equal(counted(MANY).n, 1);
    assert_int_equal(tft_port_cpus(), 1);
    tft_port_crowds = true;
    assert_int_equal(counted(MANY).n, threaded() ? MANY : 1);
    assert_int_equal(sched_setaffinity(0, sizeof was, &was), 0);
}

static void sleep_ms(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

struct late {
    long ms; /* by which the last thread is late */
    int n;   /* threads of the team */
};

/* All wait for the last one, as if another process had its CPU. */
static void be_late(void *arg, int tid, int n)
{
    struct late *late = arg;
    if (tid == n - 1 && n > 1)
        sleep_ms(late->ms);
    tft_port_barrier();
    if (tid == 0)
        late->n = n;
}

/* Until a team has all of its threads, which it has after a while at the latest. */
static void wait_for_full(int full)
{
    int tries = 0;
    while (counted(full).n != full && tries++ < PATIENCE * 1000)
        sleep_ms(1);
    assert_true(tries < PATIENCE * 1000);
}

/* Teams with threads that wait for each other most of the time become smaller, and large again
   after a while. The first wait may be shorter than other processes keep the team from its CPUs;
   each is twice as long as the one before. */
static void teams_that_wait_become_smaller(void **state)
{
    (void)state;
    int full = tft_port_cpus() < 4 ? tft_port_cpus() : 4;
    struct late late = {.ms = 20, .n = full};
    if (!threaded() || full < 2)
        skip_because("a team of two wants two CPUs, and threads");
    tft_port_crowds = false;
    wait_for_full(full);
    for (; late.n == full && late.ms < PATIENCE * 1000; late.ms *= 2)
        tft_port_team(full, be_late, &late);
    assert_int_equal(late.n, full / 2);
    wait_for_full(full);
    tft_port_crowds = true;
}

/* ---- the floating-point environment */

static void note_rounding(void *arg, int tid, int n)
{
    int *mode = arg;
    (void)n;
    mode[tid] = fegetround();
}

static void every_thread_rounds_to_nearest(void **state)
{
    (void)state;
    int mode[MANY] = {0};
    assert_int_equal(fesetround(FE_UPWARD), 0);
    tft_port_team(MANY, note_rounding, mode);
    assert_int_equal(fegetround(), FE_UPWARD);
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    for (int i = 0; i < (threaded() ? MANY : 1); i++)
        assert_int_equal(mode[i], FE_TONEAREST);
}

/* ---- children of fork */

/* Whether fn returns true in a child of fork. */
static bool in_child(bool (*fn)(void *arg), void *arg)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        alarm(PATIENCE); /* OpenMP's teams would hang there */
        _exit(fn(arg) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool counts(void *arg)
{
    (void)arg;
    return in_step(counted(3)) && in_step(counted(2));
}

static bool forks(void *arg)
{
    return counts(arg) && in_child(counts, arg) && counts(arg);
}

static void children_have_teams(void **state)
{
    (void)state;
    assert_true(counts(NULL));
    assert_true(in_child(counts, NULL));
    assert_true(in_child(forks, NULL));
    assert_true(counts(NULL));
}

static const struct toy toy = {.arch = "llama",
                               .n_vocab = 64,
                               .n_ctx = 64,
                               .n_embd = 64,
                               .n_layer = 2,
                               .n_head = 2,
                               .n_head_kv = 2,
                               .head_dim = 32,
                               .n_ff = 96,
                               .n_rot = 32,
                               .type = TFT_Q8_0};

struct use {
    struct tft_session *s;
    float want[64];
};

static bool gives_the_same(void *arg)
{
    struct use *u = arg;
    static const int32_t ids[] = {1, 5, 9, 2, 7};
    tft_rewind(u->s, 0);
    return tft_prefill(u->s, ids, 5) == TFT_OK && tft_decode(u->s, 11) == TFT_OK &&
           memcmp(tft_logits(u->s, 0), u->want, sizeof u->want) == 0;
}

static struct tft_session *used(const struct tft_model *m, struct use *u)
{
    u->s = session(m, (struct tft_session_opts){.n_threads = 3});
    gives_the_same(u);
    memcpy(u->want, tft_logits(u->s, 0), sizeof u->want);
    return u->s;
}

static void a_session_goes_on_in_a_child(void **state)
{
    (void)state;
    struct use u;
    struct tft_model *m = opened(written(&toy));
    used(m, &u);
    assert_true(in_child(gives_the_same, &u));
    assert_true(gives_the_same(&u));
    tft_session_close(u.s);
    tft_model_close(m);
}

static void the_callers_rounding_changes_nothing(void **state)
{
    (void)state;
    struct use u;
    struct tft_model *m = opened(written(&toy));
    used(m, &u);
    assert_int_equal(fesetround(FE_DOWNWARD), 0);
    bool same = gives_the_same(&u);
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_true(same);
    tft_session_close(u.s);
    tft_model_close(m);
}

/* ---- a callback that uses a session */

struct reentry {
    struct use use;
    int calls;
    bool same;
};

static void use_it(void *user, double done)
{
    struct reentry *r = user;
    (void)done;
    r->calls++;
    r->same = r->same && gives_the_same(&r->use);
}

static void a_progress_callback_uses_a_session(void **state)
{
    (void)state;
    struct reentry r = {.same = true};
    struct tft_model *m = opened(written(&toy)), *other;
    struct tft_error err;
    used(m, &r.use);
    struct tft_model_opts o = {.size = sizeof o,
                               .n_threads = 3,
                               .weights = TFT_WEIGHTS_F32,
                               .progress = use_it,
                               .progress_user = &r};
    assert_int_equal(tft_model_open(&other, in_folder("m.gguf"), &o, &err), TFT_OK);
    assert_true(r.calls > 0 && r.same);
    tft_model_close(other);
    tft_session_close(r.use.s);
    tft_model_close(m);
}

/* ---- threads that cannot be started */

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define OWN_ADDRESSES 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_ADDRESSES 1
#endif
#endif

/* Two and a half stacks of threads, in bytes. How large stacks are depends on the limits that the
   shell gave this program. */
static size_t little_room(void)
{
    pthread_attr_t threads;
    size_t stack = 0;
    pthread_attr_init(&threads);
    pthread_attr_getstacksize(&threads, &stack);
    pthread_attr_destroy(&threads);
    return stack * 5 / 2;
}

static bool leave_little_room(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (!f || fscanf(f, "%lu", &pages) != 1)
        return false;
    fclose(f);
    struct rlimit r;
    r.rlim_cur = r.rlim_max = pages * (rlim_t)sysconf(_SC_PAGESIZE) + little_room();
    return setrlimit(RLIMIT_AS, &r) == 0;
}

static bool limits_are_obeyed(void *arg)
{
    (void)arg;
    if (!leave_little_room())
        return false;
    void *volatile more = malloc(2 * little_room()); /* compilers think that malloc succeeds */
    return !more;
}

static bool counts_in_little_room(void *arg)
{
    (void)arg;
    if (!leave_little_room())
        return false;
    struct seen s = counted(MANY);
    return in_step(s) && s.n < MANY && in_step(counted(2));
}

static void a_team_is_smaller_where_threads_cannot_be_started(void **state)
{
    (void)state;
#ifdef OWN_ADDRESSES
    skip_because("the sanitizer reserves more addresses than any limit leaves");
#endif
    if (!threaded() || !in_child(limits_are_obeyed, NULL))
        skip_because("there are no threads, or an emulator does not obey limits");
    assert_true(in_child(counts_in_little_room, NULL));
}

/* ---- the end of threads */

/* From here on no file can be opened. */
static void *begin_a_team(void *fine)
{
    struct rlimit r;
    struct seen s = counted(2);
    *(bool *)fine = in_step(s) && getrlimit(RLIMIT_NOFILE, &r) == 0;
    r.rlim_cur = 0;
    *(bool *)fine &= setrlimit(RLIMIT_NOFILE, &r) == 0;
    return NULL;
}

static bool a_thread_ends_its_team(void *arg)
{
    pthread_t t;
    bool fine = false;
    (void)arg;
    if (pthread_create(&t, NULL, begin_a_team, &fine) != 0)
        return false;
    pthread_join(t, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* OpenMP's threads end later */
    return fine;
}

/* glibc loads libgcc_s when a thread ends by pthread_exit, as OpenMP's do, and ends the process if
   it cannot: without a descriptor, or with too few addresses. */
static void a_thread_ends_without_descriptors(void **state)
{
    (void)state;
    if (!threaded())
        skip_because("there are no threads");
    assert_true(in_child(a_thread_ends_its_team, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: this process has no threads yet, which would stay */
        cmocka_unit_test(a_team_is_smaller_where_threads_cannot_be_started),
        cmocka_unit_test(a_thread_ends_without_descriptors),
        cmocka_unit_test(every_thread_once_and_in_step),
        cmocka_unit_test(teams_of_several_threads_at_once),
        cmocka_unit_test(a_team_inside_of_a_team_has_one_thread),
        cmocka_unit_test(not_more_threads_than_cpus),
        cmocka_unit_test(teams_that_wait_become_smaller),
        cmocka_unit_test(every_thread_rounds_to_nearest),
        cmocka_unit_test(children_have_teams),
        cmocka_unit_test(a_session_goes_on_in_a_child),
        cmocka_unit_test(the_callers_rounding_changes_nothing),
        cmocka_unit_test(a_progress_callback_uses_a_session),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

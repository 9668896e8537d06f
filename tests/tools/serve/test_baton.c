/* Engines of several models compute in turn: tools/serve/baton.c. Each thread is an engine with
   passes that all take the same made-up time. */
#include "test.h"

#include <sched.h>
#include <string.h>

#include "tools/serve/baton.h"

enum { MOST = 440, LONG = 100, SHORT = 10 };

struct play {
    struct baton baton;
    char log[MOST + 1]; /* the engine of each pass; of who has the baton */
    size_t n;
};

struct engine {
    struct play *play;
    struct baton_turn turn;
    char name;
    uint64_t ns; /* of a pass */
    size_t alone; /* passes before it lets another one begin to wait */
    pthread_t thread;
};

/* Until another engine waits. */
static void let_wait(struct play *p)
{
    for (bool waits = false; !waits; sched_yield()) {
        pthread_mutex_lock(&p->baton.lock);
        waits = p->baton.waiting;
        pthread_mutex_unlock(&p->baton.lock);
    }
}

static void *run(void *arg)
{
    struct engine *e = arg;
    struct play *p = e->play;
    for (;;) {
        baton_take(&p->baton, &e->turn);
        if (p->n == MOST)
            break;
        p->log[p->n++] = e->name;
        if (p->n == e->alone)
            let_wait(p);
        baton_count(&p->baton, &e->turn, e->ns);
    }
    baton_give(&p->baton, &e->turn);
    return NULL;
}

/* Engine a computes `alone` times, then b comes, too. */
static void play(struct play *p, size_t alone)
{
    struct engine a = {.play = p, .name = 'a', .ns = LONG, .alone = alone},
                  b = {.play = p, .name = 'b', .ns = SHORT};
    *p = (struct play){0};
    baton_begin(&p->baton);
    baton_take(&p->baton, &a.turn); /* before b can */
    assert_int_equal(pthread_create(&a.thread, NULL, run, &a), 0);
    for (bool begun = false; !begun; sched_yield()) { /* a is at its last pass alone */
        pthread_mutex_lock(&p->baton.lock);
        begun = a.turn.used == (alone - 1) * LONG;
        pthread_mutex_unlock(&p->baton.lock);
    }
    assert_int_equal(pthread_create(&b.thread, NULL, run, &b), 0);
    pthread_join(a.thread, NULL);
    pthread_join(b.thread, NULL);
    assert_null(p->baton.holder);
    baton_end(&p->baton);
}

/* Both have work all the time: after each pass they have had the same time, but for one pass. */
static void equal_shares_of_time(void **state)
{
    struct play p;
    long a = 0, b = 0;
    (void)state;
    play(&p, 1);
    for (size_t i = 0; i < MOST; i++) {
        a += p.log[i] == 'a' ? LONG : 0;
        b += p.log[i] == 'b' ? SHORT : 0;
        assert_in_range(labs(a - b), 0, LONG);
    }
    assert_in_range(a, (MOST / 11 - 1) * LONG, (MOST / 11 + 1) * LONG);
}

/* Who comes when another one has computed for long waits for one pass of it, and has not saved up
   the time before. */
static void the_one_that_comes_is_the_next(void **state)
{
    enum { ALONE = 50 };
    struct play p;
    (void)state;
    play(&p, ALONE);
    assert_int_equal(strspn(p.log, "a"), ALONE);
    assert_in_range(strspn(p.log + ALONE, "b"), 1, LONG / SHORT + 1);
}

static void one_engine_needs_none(void **state)
{
    struct baton_turn t = {0};
    struct baton b;
    (void)state;
    baton_take(NULL, &t);
    baton_count(NULL, &t, 5);
    baton_give(NULL, &t);
    assert_int_equal(t.used, 0);
    baton_begin(&b);
    baton_give(&b, &t); /* it has none */
    assert_null(b.holder);
    baton_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_shares_of_time),
        cmocka_unit_test(the_one_that_comes_is_the_next),
        cmocka_unit_test(one_engine_needs_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

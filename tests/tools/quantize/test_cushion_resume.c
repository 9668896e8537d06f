/* A search for a cushion that was stopped goes on from its checkpoint, and trusts none that is
   damaged, of another search, or impossible. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "cushion_search.h"
#include "tools/quantize/search/cushion_checkpoint.h"

static bool count_down(void *user, uint32_t round, double done)
{
    (void)round;
    assert_true(done >= 0 && done <= 1);
    return --*(int *)user > 0;
}

/* Stops a search every N steps and resumes it. Returns how often until it is done. */
static int in_pieces(struct tft_model *m, struct cushion_opts o, int steps, struct cushion *c)
{
    struct tft_error err;
    bool stopped = true;
    int pieces = 0, left;
    o.progress = count_down;
    o.user = &left;
    for (; stopped; pieces++) {
        left = steps;
        assert_true(pieces < 100);
        assert_int_equal(cushion_search(m, &o, c, &stopped, &err), TFT_OK);
    }
    return pieces;
}

/* A search small enough to repeat often: it halves, accepts a token at the end, none before it, and
   then the second of its finalists after it. */
static const struct toy small = {.arch = "gpt2",
                                 .n_vocab = 24,
                                 .n_ctx = 64,
                                 .n_embd = 16,
                                 .n_layer = 2,
                                 .n_head = 2,
                                 .n_head_kv = 2,
                                 .head_dim = 8,
                                 .n_ff = 32,
                                 .type = TFT_F32,
                                 .tied = true};

static struct cushion_opts small_search(void)
{
    static const int32_t start = 3;
    struct cushion_opts o = usual(&small);
    toy_tokens(196, small.n_vocab, text, TEXT);
    o.start = &start;
    o.n_start = 1;
    o.most = 3;
    o.macs = 1;
    o.tau = 0.9;
    o.cost = 0.05;
    o.progress = count_down;
    return o;
}

static void what_was_stopped_goes_on(void **state)
{
    (void)state;
    const char *path = in_folder("checkpoint");
    struct cushion_opts o = small_search();
    struct tft_model *m = unexpanded(&small);
    struct tft_map map;
    struct cushion c, other;
    o.progress = NULL;
    struct cushion whole = found(m, &o);
    o.checkpoint = path;
    assert_true(in_pieces(m, o, 4, &c) > 5);
    assert_true(c.kept);
    assert_memory_equal(c.token, whole.token, sizeof c.token);
    assert_memory_equal(c.round, whole.round, sizeof c.round);

    int left = 20;
    o.progress = count_down;
    o.user = &left;
    bool stopped;
    struct tft_error err;
    remove(path);
    assert_int_equal(cushion_search(m, &o, &c, &stopped, &err), TFT_OK);
    assert_true(stopped);
    assert_int_equal(tft_port_map(&map, path), 0);
    size_t size = map.size;
    unsigned char *file = malloc(size);
    assert_non_null(file);
    memcpy(file, map.data, size);
    tft_port_unmap(&map);

    /* a search with other options ignores it, and a damaged file is ignored */
    o.progress = NULL;
    o.text = text + 7;
    o.n_text = TEXT - 7;
    other = found(m, &o);
    o.checkpoint = NULL;
    c = found(m, &o);
    assert_memory_equal(other.round, c.round, sizeof c.round);
    o.checkpoint = path;
    o.text = text;
    o.n_text = TEXT;
    for (size_t i = 0; i < size; i += 1 + i / 40) {
        file[i] ^= 0x40;
        assert_true(write_file(path, file, size - (i % 7 == 0)));
        file[i] ^= 0x40;
        c = found(m, &o);
        assert_memory_equal(c.token, whole.token, sizeof c.token);
        assert_memory_equal(c.round, whole.round, sizeof c.round);
    }

    free(file);

    /* the state read is the state written */
    struct candidate room[1], none = {0, 5};
    struct checkpoint good,
        bad = {.found = {.tried = 1,
                         .round = {{4, 2, 0.25, {6, 8}, 7, 0, 1, 3}, {.before = 5, .tail = 1}}},
               .layers = 2,
               .stage = 1,
               .window = 3,
               .n = 1,
               .next = 1,
               .done = 0.5,
               .alone = 0.5,
               .nats = 0.75,
               .candidate = &none};
    memset(&good, 0, sizeof good);
    good.candidate = room;
    assert_true(checkpoint_save(path, 9, &bad, small.n_vocab));
    assert_false(checkpoint_load(path, 8, &good, small.n_vocab));
    assert_true(checkpoint_load(path, 9, &good, small.n_vocab));
    assert_memory_equal(room, &none, sizeof none);
    good.candidate = bad.candidate;
    assert_memory_equal(&good, &bad, sizeof bad);

    /* it is written without a name: no other file is touched, or left if the process is killed */
    files_in_folder(true);
    assert_true(write_file(in_folder("checkpoint.new"), "mine", 4));
    good.candidate = &none;
    assert_true(checkpoint_save(path, 9, &good, small.n_vocab));
    assert_int_equal(files_in_folder(false), 2);

    /* `kept` is false if the file cannot be written */
    o.checkpoint = in_folder("nowhere/checkpoint");
    o.progress = count_down;
    left = 20;
    assert_int_equal(cushion_search(m, &o, &c, &stopped, &err), TFT_OK);
    assert_true(stopped && !c.kept);
    tft_model_close(m);
}

/* Stops after every step: within layers, between stages, while finalists are tried, at the end and
   before the last. Only the interrupted run of layers is repeated. */
static void a_search_may_be_stopped_anywhere(void **state)
{
    (void)state;
    enum { MANY = 1000, RUN = 2 };
    struct cushion_opts o = small_search();
    struct tft_model *m = unexpanded(&small);
    struct tft_error err;
    struct cushion c;
    bool stopped;
    int left = MANY;
    o.user = &left;
    struct cushion whole = found(m, &o);
    int steps = MANY - left;
    assert_true(whole.tried == 3 && whole.round[2].taken);
    assert_int_equal(whole.round[2].refused, 1);
    o.checkpoint = in_folder("checkpoint");
    for (int stop = 1; stop <= steps; stop++) {
        remove(o.checkpoint);
        left = stop;
        assert_int_equal(cushion_search(m, &o, &c, &stopped, &err), TFT_OK);
        assert_true(stopped && c.kept);
        left = MANY;
        c = found(m, &o);
        assert_memory_equal(c.token, whole.token, sizeof c.token);
        assert_memory_equal(c.round, whole.round, sizeof c.round);
        assert_in_range(stop + MANY - left, steps, steps + RUN);
    }
    tft_model_close(m);
}

/* Intact files with a state that no search writes are ignored. */
static void an_impossible_checkpoint_is_none(void **state)
{
    (void)state;
    enum { BAD = 16, MANY = 1000 };
    const char *path = in_folder("checkpoint");
    struct cushion_opts o = small_search();
    struct tft_model *m = unexpanded(&small);
    struct cushion whole, c;
    struct candidate room[24];
    struct checkpoint good = {.candidate = room}, bad[BAD], other;
    struct tft_error err;
    struct tft_map map;
    bool stopped;
    uint32_t key;
    int left = MANY;
    o.user = &left;
    whole = found(m, &o);
    int steps = MANY - left;
    o.checkpoint = path;
    left = steps; /* the last round has refused a finalist and tries the second */
    remove(path);
    assert_int_equal(cushion_search(m, &o, &c, &stopped, &err), TFT_OK);
    assert_true(stopped);
    assert_int_equal(tft_port_map(&map, path), 0);
    memcpy(&key, map.data + 16, sizeof key);
    tft_port_unmap(&map);
    assert_true(checkpoint_load(path, key, &good, m->n_vocab));
    assert_true(good.found.tried == 2 && good.stage == 2 && good.next == 1);
    other = good;
    for (int i = 0; i < BAD; i++)
        bad[i] = good;
    bad[0].found.tried = CUSHION_ROUNDS;
    bad[1].found.tried = CUSHION_ROUNDS - 1;
    bad[2].found.tried = 3; /* the search would be over */
    bad[3].found.round[0].tail = 1;
    bad[4].found.round[2].tail = 1;
    bad[5].found.round[2].tail = 2;
    bad[6].found.round[0].taken = 0;
    bad[7].found.round[1].taken = 1; /* the prefix would have its full length */
    bad[8].found.round[2].taken = 2; /* this and the next two are impossible */
    bad[9].found.round[0].token = -1;
    bad[10].found.round[2].token = (int32_t)m->n_vocab;
    bad[11].layers = m->n_layer + 1;
    bad[12].stage = 9;
    bad[13].window = 0;
    bad[14].n = bad[14].next = 0;
    bad[15].found.round[2].sample[3] = SAMPLES;
    for (int i = 0; i < BAD; i++) {
        assert_true(checkpoint_save(path, key, &bad[i], m->n_vocab));
        assert_int_equal(checkpoint_load(path, key, &other, m->n_vocab),
                         i > 0 && (i < 8 || i > 10));
        left = MANY;
        c = found(m, &o);
        assert_int_equal(MANY - left, steps); /* starts from the beginning */
        assert_memory_equal(c.token, whole.token, sizeof c.token);
        assert_memory_equal(c.round, whole.round, sizeof c.round);
    }
    assert_true(checkpoint_save(path, key, &good, m->n_vocab));
    left = MANY;
    c = found(m, &o);
    assert_in_range(MANY - left, 1, steps / 2);
    assert_true(checkpoint_save(path, key, &good, m->n_vocab));
    o.cost = -1; /* nothing is accepted: a search with other options */
    assert_int_equal(found(m, &o).n, o.n_start);
    assert_memory_equal(c.round, whole.round, sizeof c.round);
    tft_model_close(m);
}

/* A model that differs in its last number only, such as a fine-tune of the last layer: the file is
   as long, and the first MiB, positions for the most part, is the same. */
static void another_model_starts_anew(void **state)
{
    (void)state;
    enum { MANY = 1000, MIB = 1 << 20 };
    struct cushion_opts o = small_search();
    struct toy long_context = small;
    struct tft_map map;
    struct tft_error err;
    struct cushion c, whole;
    bool stopped;
    int left = MANY;
    long_context.n_ctx = 20000;
    const char *path = written(&long_context);
    o.user = &left;
    assert_int_equal(tft_port_map(&map, path), 0);
    size_t size = map.size;
    unsigned char *file = malloc(size);
    assert_non_null(file);
    assert_true(size > MIB + 4096);
    memcpy(file, map.data, size);
    tft_port_unmap(&map);

    o.checkpoint = in_folder("checkpoint");
    remove(o.checkpoint);
    struct tft_model *m = unexpanded_at(path);
    left = 20;
    assert_int_equal(cushion_search(m, &o, &c, &stopped, &err), TFT_OK);
    assert_true(stopped && c.kept);
    tft_model_close(m);

    float last;
    memcpy(&last, file + size - sizeof last, sizeof last);
    last += 0.5f;
    memcpy(file + size - sizeof last, &last, sizeof last);
    path = in_folder("other.gguf");
    assert_true(write_file(path, file, size));
    free(file);
    m = unexpanded_at(path);
    const char *checkpoint = o.checkpoint;
    o.checkpoint = NULL;
    left = MANY;
    whole = found(m, &o);
    int steps = MANY - left;
    o.checkpoint = checkpoint;
    left = MANY;
    c = found(m, &o);
    assert_int_equal(MANY - left, steps);
    assert_memory_equal(c.round, whole.round, sizeof c.round);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_stopped_goes_on),
        cmocka_unit_test(a_search_may_be_stopped_anywhere),
        cmocka_unit_test(an_impossible_checkpoint_is_none),
        cmocka_unit_test(another_model_starts_anew),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

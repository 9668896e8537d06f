#include "model/resident.h"

#include "base/alloc.h"
#include "base/error.h"
#include "port/port.h"

struct unit {
    uint32_t older, newer; /* its neighbours in the order of use, if it is in memory */
    bool stays;            /* it is in memory */
    bool likely;           /* it was read because it was likely, and has not been used yet */
};

/* Reads of likely units that turn out wrong, more than right ones, before there are no more. */
enum { CREDIT = 256 };

struct tft_resident {
    const struct tft_model *m;
    uint64_t most, bytes, read;
    uint32_t ahead;
    uint32_t n;                /* units; unit n is the end of the ring: its older is the newest */
    int credit;                /* of likely units */
    struct tft_port_flag free; /* raised while no thread changes the numbers above or the units */
    struct unit unit[];
};

/* ------------------------------------------------------------------------------------- matrices */

struct bytes {
    const unsigned char *at; /* NULL: the matrix is not in the file as it is used */
    uint64_t n;
};

/* The matrix of expert e. */
static struct bytes matrix(const struct tft_mat *all, uint32_t e)
{
    if (!all->tensor || all->data != all->tensor->data)
        return (struct bytes){0};
    if (tft_format_in_panels(all->format))
        return (struct bytes){all->tensor->data + e * all->apart, all->apart};
    uint64_t row = (uint64_t)all->cols * tft_num_bytes(all->format->num);
    return (struct bytes){all->tensor->data + (all->first + e * all->apart) * row, all->rows * row};
}

/* Calls what(source, matrix) for each matrix of a unit; returns their bytes. */
static uint64_t each_matrix(const struct tft_model *m, uint32_t unit,
                            void (*what)(const struct tft_source *s, const unsigned char *from,
                                         uint64_t n))
{
    uint32_t e = unit % m->n_expert, half = unit / m->n_expert % TFT_EXPERT_HALVES;
    const struct tft_experts *x = &m->layer[unit / m->n_expert / TFT_EXPERT_HALVES].experts;
    const struct tft_mat *of[TFT_EXPERT_HALVES][2] = {{&x->gate.w, &x->up.w}, {&x->down.w, NULL}};
    uint64_t sum = 0;
    for (int i = 0; i < 2 && of[half][i]; i++) {
        struct bytes b = matrix(of[half][i], e);
        if (b.at && what)
            what(&m->source, b.at, b.n);
        sum += b.n;
    }
    return sum;
}

static uint64_t unit_bytes(const struct tft_model *m, uint32_t unit)
{
    return each_matrix(m, unit, NULL);
}

/* ---------------------------------------------------------------------------------- bookkeeping */

/* Threads hold the lock for a few instructions. A process that was forked meanwhile finds it held
   for ever, and does without advice. */
static bool lock(struct tft_resident *r)
{
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES; i++)
        if (tft_port_lower(&r->free))
            return true;
    return false;
}

static void unlock(struct tft_resident *r) { tft_port_raise(&r->free); }

static void unlink_unit(struct tft_resident *r, uint32_t i)
{
    struct unit *u = &r->unit[i];
    r->unit[u->older].newer = u->newer;
    r->unit[u->newer].older = u->older;
}

static void link_newest(struct tft_resident *r, uint32_t i)
{
    struct unit *u = &r->unit[i], *end = &r->unit[r->n];
    u->newer = r->n;
    u->older = end->older;
    r->unit[u->older].newer = i;
    end->older = i;
}

/* A likely unit was used, or not. */
static void settle(struct tft_resident *r, struct unit *u, bool used)
{
    int sum = r->credit + (used ? 1 : -1);
    if (u->likely && sum <= CREDIT)
        r->credit = sum;
    u->likely = false;
}

enum step { STAYS, READ, EVICT };

/* What use of unit i needs next: nothing, reading i, or freeing *oldest and asking again. */
static enum step next_step(struct tft_resident *r, uint32_t i, uint64_t size, bool likely,
                           uint32_t *oldest)
{
    struct unit *u = &r->unit[i], *end = &r->unit[r->n];
    if (u->stays) {
        if (!likely)
            settle(r, u, true);
        unlink_unit(r, i);
        link_newest(r, i);
        return STAYS;
    }
    if (r->bytes + size > r->most && end->newer != r->n) {
        *oldest = end->newer;
        unlink_unit(r, *oldest);
        settle(r, &r->unit[*oldest], false);
        r->unit[*oldest].stays = false;
        r->bytes -= unit_bytes(r->m, *oldest);
        return EVICT;
    }
    *u = (struct unit){.stays = true, .likely = likely};
    r->bytes += size;
    r->read += size;
    link_newest(r, i);
    return READ;
}

void tft_resident_use(struct tft_resident *r, uint32_t unit, bool likely)
{
    uint64_t size = unit_bytes(r->m, unit);
    uint32_t oldest = 0;
    enum step step = EVICT;
    while (step == EVICT) {
        if (!lock(r))
            return;
        step = next_step(r, unit, size, likely, &oldest);
        unlock(r);
        if (step == EVICT)
            each_matrix(r->m, oldest, tft_source_evict);
    }
    if (step == READ)
        each_matrix(r->m, unit, tft_source_prefetch);
}

bool tft_resident_guesses(struct tft_resident *r)
{
    if (!lock(r))
        return false;
    bool yes = r->credit > 0;
    r->credit += !yes; /* tries again from time to time */
    unlock(r);
    return yes;
}

uint32_t tft_resident_ahead(const struct tft_resident *r) { return r->ahead; }
uint64_t tft_resident_bytes(const struct tft_resident *r) { return r->bytes; }
uint64_t tft_resident_read(const struct tft_resident *r) { return r->read; }

/* -------------------------------------------------------------------------------------- opening */

static uint64_t sum_of_units(const struct tft_model *m, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += unit_bytes(m, i);
    return sum;
}

static uint64_t largest_unit(const struct tft_model *m, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i += m->n_expert) {
        uint64_t bytes = unit_bytes(m, i);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t tft_resident_room(uint64_t memory, uint64_t file, uint64_t experts)
{
    uint64_t rest = file > experts ? file - experts : 0;
    memory -= memory / 8;
    if (!memory || file <= memory)
        return 0;
    return memory > rest ? memory - rest : 1;
}

static enum tft_status refuse(const struct tft_model *m, struct tft_error *err)
{
    if (!m->n_expert)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: a bound on the memory of experts, but the model has no experts",
                        m->source.name);
    return tft_fail(
        err, TFT_ERR_UNSUPPORTED,
        "%s: a bound on the memory of experts needs a mapped file that is used in place: "
        "make one with tuffet pack or tuffet quantize",
        m->source.name);
}

/* Units to read ahead: 32 MB keep a disk busy; with the experts of two layers of a token, likely
   ones of the next layer can be among them. They all fit in the bound. */
static uint32_t units_ahead(const struct tft_model *m, uint64_t most, uint64_t largest)
{
    uint64_t two_layers = 2 * TFT_EXPERT_HALVES * m->n_expert_used * largest, usual = 32 << 20,
             bytes = two_layers > usual ? two_layers : usual;
    return (uint32_t)((bytes < most ? bytes : most) / largest);
}

static enum tft_status make(struct tft_model *m, uint64_t most, uint32_t n, uint64_t largest,
                            struct tft_error *err)
{
    size_t size = sizeof(struct tft_resident) + ((size_t)n + 1) * sizeof(struct unit);
    struct tft_resident *r = tft_alloc(m->allocator, size);
    if (!r)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for the list of %u experts",
                        m->source.name, n);
    *r = (struct tft_resident){
        .m = m, .most = most, .ahead = units_ahead(m, most, largest), .n = n, .credit = CREDIT};
    tft_port_raise(&r->free);
    for (uint32_t i = 0; i < n; i++)
        r->unit[i] = (struct unit){0};
    r->unit[n] = (struct unit){.older = n, .newer = n};
    m->resident = r;
    return TFT_OK;
}

enum tft_status tft_resident_open(struct tft_model *m, uint64_t most, struct tft_error *err)
{
    uint64_t layers = (uint64_t)m->n_layer + tft_model_predicts(m),
             units = layers * TFT_EXPERT_HALVES * m->n_expert;
    bool mapped = tft_source_maps(&m->source, m->source.data) && units < UINT32_MAX;
    uint32_t n = mapped ? (uint32_t)units : 0;
    uint64_t all = sum_of_units(m, n), largest = largest_unit(m, n),
             least = TFT_EXPERT_HALVES * m->n_expert_used * largest, given = most;
    if (!all)
        return given ? refuse(m, err) : TFT_OK;
    if (!given)
        most = tft_resident_room(tft_port_memory(), tft_source_bytes(&m->source), all);
    if (given && most < least)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: experts may take %llu bytes of memory; one layer of one token needs "
                        "%llu",
                        m->source.name, (unsigned long long)most, (unsigned long long)least);
    if (!most || most >= all)
        return TFT_OK;
    return make(m, most < least ? least : most, n, largest, err);
}

void tft_resident_close(struct tft_model *m)
{
    if (m->resident)
        tft_free(m->allocator, m->resident,
                 sizeof *m->resident + ((size_t)m->resident->n + 1) * sizeof(struct unit));
    m->resident = NULL;
}

void tft_resident_clear(struct tft_model *m)
{
    for (uint32_t i = 0; m->resident && i < m->resident->n; i++)
        each_matrix(m, i, tft_source_evict);
}

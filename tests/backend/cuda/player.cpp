/* A CPU plays an NVIDIA GPU: see cuda_runtime_api.h. */
#undef _FORTIFY_SOURCE /* it aborts when longjmp changes the stack */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <vector>

#include "machine.cuh"

#if defined __SANITIZE_ADDRESS__
#define PLAYER_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define PLAYER_ASAN 1
#endif
#endif
#if PLAYER_ASAN
#include <sanitizer/common_interface_defs.h>
#define NO_ASAN __attribute__((no_sanitize("address")))
#else
#define NO_ASAN
#endif

dim3 threadIdx, blockIdx, blockDim;

/* -------------------------------------------------------------------------------------- threads */

enum { STACK = 64 << 10, MAX_THREADS = 1024, EXCHANGE = PLAYER_WARP * 32 };

/* The coroutine of a thread. */
static void start();

#if defined __x86_64__

/* Where a stack was left. The registers that a function keeps are on the stack. */
struct context {
    void **top;
};

/* Leaves this stack for the stack with the top `to`. It ends with a jump, not with a return: a CPU
   foresees where returns go from the calls before them. Threads that wait at the same barrier have
   made the same calls, so the returns that follow are foreseen. */
extern "C" __attribute__((visibility("hidden"))) void player_switch(void ***from, void **to);
asm(".pushsection .text\n"
    ".p2align 4\n"
    ".globl player_switch\n"
    ".hidden player_switch\n"
    ".type player_switch, @function\n"
    "player_switch:\n"
    "push %rbp\n"
    "push %rbx\n"
    "push %r12\n"
    "push %r13\n"
    "push %r14\n"
    "push %r15\n"
    "mov %rsp, (%rdi)\n"
    "mov %rsi, %rsp\n"
    "pop %r15\n"
    "pop %r14\n"
    "pop %r13\n"
    "pop %r12\n"
    "pop %rbx\n"
    "pop %rbp\n"
    "pop %rcx\n"
    "jmp *%rcx\n"
    ".size player_switch, .-player_switch\n"
    ".popsection\n");

/* Makes a context that begins with start(). */
static void prepare(context *c, unsigned char *stack)
{
    c->top = (void **)(stack + STACK) - 8; /* six registers, start(), and where it never returns */
    memset(c->top, 0, 8 * sizeof *c->top);
    c->top[6] = (void *)start;
}

static void leave_for(context *from, context *to)
{
    player_switch(&from->top, to->top);
}

#else

struct context {
    jmp_buf here;
    ucontext_t first;
    bool is_new; /* it goes on at `first`, else here */
};

static void prepare(context *c, unsigned char *stack)
{
    getcontext(&c->first);
    c->first.uc_stack.ss_sp = stack;
    c->first.uc_stack.ss_size = STACK;
    c->first.uc_link = NULL;
    makecontext(&c->first, start, 0);
    c->is_new = true;
}

/* setjmp, because swapcontext makes a system call each time. */
NO_ASAN __attribute__((noinline)) static void leave_for(context *from, context *to)
{
    if (_setjmp(from->here) != 0)
        return;
    if (to->is_new) {
        to->is_new = false;
        setcontext(&to->first);
    }
    _longjmp(to->here, 1);
}

#endif

enum state : unsigned char { RUNNING, AT_BLOCK, AT_WARP, DONE };

struct thread {
    context here;
    unsigned char *stack; /* NULL before it first runs */
    ~thread()
    {
        free(stack);
    }
};

static struct {
    std::mutex lock; /* one kernel at a time */
    thread threads[MAX_THREADS];
    enum state state[MAX_THREADS];
    unsigned char exchanges[MAX_THREADS]; /* that each thread has begun, modulo 256 */
    context main;
    unsigned current, n;
    unsigned next, step, left; /* of a round: the next thread, from one to the next, how many */
    const std::function<void()> *kernel;
    std::vector<unsigned char> shared;
    alignas(16) unsigned char exchange[2][MAX_THREADS / PLAYER_WARP][EXCHANGE];
    uint64_t chance;
} player;

static uint64_t draw()
{
    player.chance = player.chance * 6364136223846793005u + 1442695040888963407u;
    return player.chance >> 33;
}

/* The stack of run_block(), for ASan, and whether it was left just now. */
static const void *main_bottom;
static size_t main_size;
#if PLAYER_ASAN
static bool leaves_main;

/* A stack goes on. fake: ASan's record of it; NULL if it begins */
NO_ASAN static void arrive(void *fake)
{
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(fake, &bottom, &size);
    if (leaves_main) {
        main_bottom = bottom;
        main_size = size;
    }
}
#endif

/* Switches from one stack to another. bottom, size: of the other stack, for ASan */
NO_ASAN __attribute__((noinline)) static void switch_stack(context *from, context *to,
                                                           const void *bottom, size_t size)
{
#if PLAYER_ASAN
    void *fake;
    leaves_main = from == &player.main;
    __sanitizer_start_switch_fiber(&fake, bottom, size);
    leave_for(from, to);
    arrive(fake);
#else
    (void)bottom, (void)size;
    leave_for(from, to);
#endif
}

/* Leaves `from` for thread i; n: for run_block(). */
static void go_on(context *from, unsigned i)
{
    if (i == player.n) {
        switch_stack(from, &player.main, main_bottom, main_size);
        return;
    }
    thread *t = &player.threads[i];
    if (!t->stack) {
        t->stack = (unsigned char *)malloc(STACK);
        prepare(&t->here, t->stack);
    }
    player.current = i;
    threadIdx = dim3(i);
    switch_stack(from, &t->here, t->stack, STACK);
}

/* Opens the barrier `at` of n threads from `first` on, if all of them that are not done wait there.
   Returns whether it opened for any. */
static bool release(unsigned first, unsigned n, enum state at)
{
    bool any = false;
    for (unsigned i = first; i < first + n; i++) {
        if (player.state[i] != at && player.state[i] != DONE)
            return false;
        any |= player.state[i] == at;
    }
    for (unsigned i = first; any && i < first + n; i++)
        if (player.state[i] == at)
            player.state[i] = RUNNING;
    return any;
}

/* Opens the barriers where all threads wait. If none opens, threads wait at different barriers,
   which deadlocks a GPU or worse. False: all threads are done. */
static bool open_barriers()
{
    const unsigned warp = PLAYER_WARP;
    bool any = release(0, player.n, AT_BLOCK);
    for (unsigned w = 0; w < player.n; w += warp)
        any |= release(w, player.n - w < warp ? player.n - w : warp, AT_WARP);
    for (unsigned i = 0; !any && i < player.n; i++)
        if (player.state[i] != DONE)
            abort();
    return any;
}

/* A round runs each thread up to its next barrier, from a random one on, up or down. */
static void begin_round()
{
    player.next = (unsigned)(draw() % player.n);
    player.step = draw() % 2 ? 1 : player.n - 1;
    player.left = player.n;
}

/* The next thread that may run; n: all are done. */
static unsigned next_thread()
{
    for (;;) {
        while (player.left) {
            unsigned i = player.next, after = i + player.step;
            player.next = after < player.n ? after : after - player.n;
            player.left--;
            if (player.state[i] == RUNNING)
                return i;
        }
        if (!open_barriers())
            return player.n;
        begin_round();
    }
}

/* Other threads run until this one may go on. */
static void wait(enum state at)
{
    unsigned own = player.current;
    player.state[own] = at;
    unsigned next = next_thread();
    if (next != own)
        go_on(&player.threads[own].here, next);
}

/* Runs a thread of all thread blocks, one after the other. */
static void start()
{
#if PLAYER_ASAN
    arrive(NULL);
#endif
    for (;;) {
        (*player.kernel)();
        wait(DONE);
    }
}

void player_wait_block()
{
    wait(AT_BLOCK);
}

void player_wait_warp()
{
    wait(AT_WARP);
}

void *player_exchange()
{
    unsigned turn = player.exchanges[player.current]++ % 2;
    return player.exchange[turn][threadIdx.x / PLAYER_WARP];
}

unsigned char *player_shared()
{
    return (unsigned char *)(((uintptr_t)player.shared.data() + 15) / 16 * 16);
}

/* Runs a thread block. */
static void run_block()
{
    memset(player.state, RUNNING, player.n);
    memset(player.exchanges, 0, player.n);
    begin_round();
    go_on(&player.main, next_thread());
}

/* -------------------------------------------------------------------------------------- streams */

struct player_graph {
    std::vector<std::function<void()>> launches;
};

struct player_stream {
    player_graph *recording;
};

static cudaError_t last;

static cudaError_t fail(cudaError_t e)
{
    last = e;
    return e;
}

/* Runs all thread blocks of a launch, from a random one on, up or down. */
static void run_grid(dim3 blocks, unsigned threads, size_t shared,
                     const std::function<void()> &kernel)
{
    std::lock_guard<std::mutex> guard(player.lock);
    player.n = threads;
    player.kernel = &kernel;
    blockDim = dim3(threads);
    size_t n = (size_t)blocks.x * blocks.y * blocks.z, at = draw() % n,
           step = draw() % 2 ? 1 : n - 1;
    for (size_t i = 0; i < n; i++, at = (at + step) % n) {
        player.shared.assign(shared + 15, 0xa5); /* nothing remains of the last thread block */
        player.shared.shrink_to_fit();
        blockIdx = dim3((unsigned)(at % blocks.x), (unsigned)(at / blocks.x % blocks.y),
                        (unsigned)(at / blocks.x / blocks.y));
        run_block();
    }
}

void player_launch(cudaStream_t stream, dim3 blocks, unsigned threads, size_t shared,
                   std::function<void()> kernel)
{
    if (!blocks.x || !blocks.y || !blocks.z || blocks.y > 65535 || blocks.z > 65535 || !threads ||
        threads > MAX_THREADS || shared > 64 << 10)
        fail(cudaErrorInvalidValue);
    else if (stream->recording)
        stream->recording->launches.push_back([=] { run_grid(blocks, threads, shared, kernel); });
    else
        run_grid(blocks, threads, shared, kernel);
}

extern "C" {

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last;
    last = cudaSuccess;
    return e;
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "out of memory"
           : e == cudaErrorNoDevice       ? "no CUDA-capable device is detected"
                                          : "failed";
}

/* A setting from the environment: tests choose how many GPUs there are, their compute capability
   and memory, and whether they fail. */
static size_t setting(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* Whether this is the call that is to fail. PLAYER_LOG gets the number of calls. */
static bool breaks(void)
{
    static struct counter {
        size_t calls = 0;
        ~counter()
        {
            const char *path = getenv("PLAYER_LOG");
            FILE *f = path ? fopen(path, "w") : NULL;
            if (f) {
                fprintf(f, "%zu\n", calls);
                fclose(f);
            }
        }
    } counter;
    return ++counter.calls == setting("PLAYER_FAILS_CALL", 0);
}

#define MAY_BREAK                                                                                  \
    if (breaks())                                                                                  \
        return fail(cudaErrorIllegalAddress)

cudaError_t cudaGetDeviceCount(int *n)
{
    MAY_BREAK;
    *n = (int)setting("PLAYER_GPUS", 1);
    return *n ? cudaSuccess : fail(cudaErrorNoDevice);
}

static thread_local int current;

cudaError_t cudaSetDevice(int index)
{
    MAY_BREAK;
    current = index;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *index)
{
    MAY_BREAK;
    *index = current;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int)
{
    MAY_BREAK;
    size_t capability = setting("PLAYER_CAPABILITY", 90);
    if (attribute == cudaDevAttrClockRate && !setting("PLAYER_CLOCKS", 1))
        return fail(cudaErrorInvalidValue);
    switch (attribute) {
    case cudaDevAttrClockRate: *value = 1000000; break; /* kHz */
    case cudaDevAttrMultiProcessorCount: *value = 2; break;
    case cudaDevAttrMemoryClockRate: *value = 2000000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = 64; break;
    case cudaDevAttrComputeCapabilityMajor: *value = (int)(capability / 10); break;
    case cudaDevAttrComputeCapabilityMinor: *value = (int)(capability % 10); break;
    default: return fail(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

static size_t taken;

static void memory_left(size_t *free_bytes, size_t *all)
{
    *all = setting("PLAYER_BYTES", (size_t)1 << 30);
    *free_bytes = *all > taken ? *all - taken : 0;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all)
{
    MAY_BREAK;
    memory_left(free_bytes, all);
    return cudaSuccess;
}

/* An allocation ends at a page that may not be touched, less the padding that aligns its start to
   16 bytes. */
struct allocation {
    unsigned char *pages;
    size_t length, size;
};

static std::map<void *, allocation> allocations;

cudaError_t cudaMalloc(void **p, size_t size)
{
    MAY_BREAK;
    size_t free_bytes, all, page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (size + page) / page * page;
    memory_left(&free_bytes, &all);
    void *pages = size <= free_bytes
                      ? mmap(NULL, body + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : MAP_FAILED;
    if (pages == MAP_FAILED || mprotect(pages, body, PROT_READ | PROT_WRITE) != 0)
        return fail(cudaErrorMemoryAllocation);
    allocation own = {(unsigned char *)pages, body + page, size};
    *p = own.pages + (body - size) / 16 * 16;
    memset(own.pages, 0x5a, body);
    allocations[*p] = own;
    taken += size;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    std::map<void *, allocation>::iterator at = allocations.find(p);
    if (!p)
        return cudaSuccess;
    if (at == allocations.end())
        return fail(cudaErrorInvalidValue);
    taken -= at->second.size;
    munmap(at->second.pages, at->second.length);
    allocations.erase(at);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t size)
{
    MAY_BREAK;
    *p = malloc(size);
    return *p ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    MAY_BREAK;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t)
{
    MAY_BREAK;
    memset(p, byte, n);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t n, int)
{
    MAY_BREAK;
    memcpy(to, from, n);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, cudaStream_t stream)
{
    return stream->recording ? fail(cudaErrorInvalidValue) : cudaMemcpy(to, from, n, kind);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    MAY_BREAK;
    *stream = new player_stream();
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    MAY_BREAK;
    static size_t waits;
    size_t from = setting("PLAYER_FAILS", 0);
    waits++;
    return stream->recording      ? fail(cudaErrorInvalidValue)
           : from && waits >= from ? fail(cudaErrorIllegalAddress)
                                   : cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int)
{
    MAY_BREAK;
    stream->recording = new player_graph();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = stream->recording;
    stream->recording = NULL;
    MAY_BREAK;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long)
{
    MAY_BREAK;
    *exec = new player_graph(*graph);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t)
{
    MAY_BREAK;
    for (const std::function<void()> &launch : exec->launches)
        launch();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}
}

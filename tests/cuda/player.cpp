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

/* The compiler's own jumps are quicker. ASan makes a system call in every longjmp(), and for every
   call that does not return: 19 of 20 parts of the time. It leaves these in functions without ASan
   alone. */
#if defined __x86_64__
#define SET_JUMP(at) __builtin_setjmp((void **)(at))
#define JUMP(to) __builtin_longjmp((void **)(to), 1)
#else
#define SET_JUMP(at) _setjmp(at)
#define JUMP(to) _longjmp(to, 1)
#endif

dim3 threadIdx, blockIdx, blockDim;

/* -------------------------------------------------------------------------------------- threads */

enum { STACK = 64 << 10, MAX_THREADS = 1024, EXCHANGE = PLAYER_WARP * 32 };

enum state { RUNNING, AT_BLOCK, AT_WARP, DONE };

struct thread {
    jmp_buf here;
    unsigned char *stack; /* NULL before it first runs */
    enum state state;
    ~thread()
    {
        free(stack);
    }
};

static struct {
    std::mutex lock; /* one kernel at a time */
    thread threads[MAX_THREADS];
    jmp_buf main;
    unsigned current, n;
    const std::function<void()> *kernel;
    std::vector<unsigned char> shared;
    alignas(16) unsigned char exchange[MAX_THREADS / PLAYER_WARP][EXCHANGE];
    uint64_t chance;
} player;

static uint64_t draw()
{
    player.chance = player.chance * 6364136223846793005u + 1442695040888963407u;
    return player.chance >> 33;
}

/* A function of its own: the compiler's own jump may not be where its target is set. */
NO_ASAN __attribute__((noinline, noreturn)) static void jump(jmp_buf to)
{
    JUMP(to);
}

/* Switches from one stack to another: to where `to` was set or, the first time, to the context
   `first`. setjmp, because swapcontext makes a system call each time. bottom, size: of the other
   stack, for ASan; fake is what ASan keeps of this stack until it is switched back to. */
NO_ASAN __attribute__((noinline)) static void
switch_stack(jmp_buf from, jmp_buf to, const ucontext_t *first, const void *bottom, size_t size)
{
#if PLAYER_ASAN
    void *fake;
    __sanitizer_start_switch_fiber(&fake, bottom, size);
#else
    (void)bottom, (void)size;
#endif
    if (SET_JUMP(from) == 0) {
        if (first)
            setcontext(first);
        jump(to);
    }
#if PLAYER_ASAN
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

static const void *main_bottom;
static size_t main_size;

/* Returns to run_block() until this thread may go on. */
static void wait(enum state at)
{
    thread *t = &player.threads[player.current];
    t->state = at;
    switch_stack(t->here, player.main, NULL, main_bottom, main_size);
}

/* The coroutine of a thread: it runs that thread of all thread blocks, one after the other. */
static void start()
{
#if PLAYER_ASAN
    __sanitizer_finish_switch_fiber(NULL, &main_bottom, &main_size);
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
    return player.exchange[threadIdx.x / PLAYER_WARP];
}

unsigned char *player_shared()
{
    return (unsigned char *)(((uintptr_t)player.shared.data() + 15) / 16 * 16);
}

/* Runs thread i up to its next barrier. */
static void resume(unsigned i)
{
    thread *t = &player.threads[i];
    const ucontext_t *first = NULL;
    ucontext_t context;
    player.current = i;
    threadIdx = dim3(i);
    if (!t->stack) {
        t->stack = (unsigned char *)malloc(STACK);
        getcontext(&context);
        context.uc_stack.ss_sp = t->stack;
        context.uc_stack.ss_size = STACK;
        context.uc_link = NULL;
        makecontext(&context, start, 0);
        first = &context;
    }
    switch_stack(player.main, t->here, first, t->stack, STACK);
}

/* Opens the barrier `at` of n threads from `first` on, if all of them that are not done wait there.
   Returns whether it opened for any. */
static bool release(unsigned first, unsigned n, enum state at)
{
    bool any = false;
    for (unsigned i = first; i < first + n; i++) {
        if (player.threads[i].state != at && player.threads[i].state != DONE)
            return false;
        any |= player.threads[i].state == at;
    }
    for (unsigned i = first; any && i < first + n; i++)
        if (player.threads[i].state == at)
            player.threads[i].state = RUNNING;
    return any;
}

/* Runs a thread block: each thread up to its next barrier, from a random one on, up or down; then
   opens the barriers where all threads wait. If no barrier opens, threads wait at different
   barriers, which deadlocks a GPU or worse. */
static void run_block()
{
    const unsigned warp = PLAYER_WARP;
    for (unsigned i = 0; i < player.n; i++)
        player.threads[i].state = RUNNING;
    for (;;) {
        unsigned offset = (unsigned)draw(), step = draw() % 2 ? 1 : player.n - 1;
        for (unsigned i = 0, at = offset % player.n; i < player.n; i++, at = (at + step) % player.n)
            if (player.threads[at].state == RUNNING)
                resume(at);
        bool any = release(0, player.n, AT_BLOCK), left = false;
        for (unsigned w = 0; w < player.n; w += warp)
            any |= release(w, player.n - w < warp ? player.n - w : warp, AT_WARP);
        for (unsigned i = 0; i < player.n; i++)
            left |= player.threads[i].state != DONE;
        if (!left)
            return;
        if (!any)
            abort();
    }
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

/* An allocation ends at a page that may not be touched, less what aligns its start to 16 bytes. */
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

/* Draws a task graph in the shape of a training step, to standard output: LAYERS levels forward and
   as many backward, an exec on every device at every level.  It waits for the exec before it on its
   device and for two transfers, from what other devices computed at the level before: the next
   device, and one at a distance that goes through 2, 4, 8 ... from level to level.  Links carry 10
   GB/s with a latency of 5 us from end to end; an exec takes 1 to 1.2 ms forward and twice that
   backward, a transfer has 1 to 3 MB.

   On a mesh every two devices are joined by links of their own; at most one transfer is on a link
   at a time.  On a star all go over one switch, and share the links there.
     usage: draw_levels LAYERS DEVICES mesh|star [SEED] */
#include "base/random.h"
#include "tests/bench/arguments.h"

typedef struct shape {
    int layers, devices;
    bool star;
} shape;

static void write_links(const shape *of) {
    printf("node %d\n", of->devices);
    for (int a = 0; a < of->devices; a++) {
        if (of->star)
            printf("link %d %d 1e10 2.5e-6\nlink %d %d 1e10 2.5e-6\n", a, of->devices, of->devices,
                   a);
        for (int b = 0; b < of->devices && !of->star; b++)
            if (a != b)
                printf("link %d %d 1e10 5e-6\n", a, b);
    }
}

/* Where the two transfers for a level come from. */
static int distance(const shape *of, int level, int which) {
    int n_powers = 0; /* of two, from 2 up, below the number of devices */
    while (2 << n_powers < of->devices)
        n_powers++;
    return which == 0 ? 1 : 2 << (level % n_powers);
}

/* An exec and its transfers have ids side by side: 3 a device, but 1 on the first level. */
static int exec_id(const shape *of, int level, int device) {
    return level == 0 ? device : of->devices + 3 * ((level - 1) * of->devices + device) + 2;
}

static void write_task(const shape *of, int level, int device, cleave_random *random) {
    int id = exec_id(of, level, device);
    double most = level < of->layers ? 1e-3 : 2e-3;
    printf("exec %d %d %.9f\n", id, device, most * (1 + 0.2 * cleave_random_next_uniform(random)));
    if (level == 0)
        return;
    printf("dep %d %d\n", exec_id(of, level - 1, device), id);
    for (int which = 0; which < 2; which++) {
        int source = (device + distance(of, level, which)) % of->devices, comm = id - 2 + which;
        printf("comm %d %d %d %d\n", comm, source, device,
               (int)(1e6 * (1 + 2 * cleave_random_next_uniform(random))));
        printf("dep %d %d\ndep %d %d\n", exec_id(of, level - 1, source), comm, comm, id);
    }
}

int main(int argc, char **argv) {
    static const char *const shapes[] = {"mesh", "star"};
    bench_arguments a = bench_begin(argc, argv);
    shape of = {.layers = (int)bench_take_integer(&a, "LAYERS", 1, 10000, 0),
                .devices = (int)bench_take_integer(&a, "DEVICES", 3, 1024, 0)};
    const char *name = bench_take_name(&a, "shape", false, shapes, sizeof *shapes, 2);
    if (name == NULL)
        bench_refuse(&a, "LAYERS DEVICES mesh|star are wanted");
    of.star = strcmp(name, "star") == 0;
    cleave_random random = {.key =
                                (uint64_t)bench_take_integer(&a, "SEED", 0, INT64_C(1) << 53, 1)};
    bench_end(&a);
    write_links(&of);
    for (int level = 0; level < 2 * of.layers; level++)
        for (int device = 0; device < of.devices; device++)
            write_task(&of, level, device, &random);
    return fflush(stdout) == 0 ? 0 : 1;
}

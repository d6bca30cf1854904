/* Devices as a grid. */
#include "graph/export/mesh.h"

#include <string.h>

static int put_primes(int32_t n, int8_t axis, int at, int32_t *prime, int8_t *of) {
    for (int32_t p = 2; n > 1 && at < CLEAVE_MAX_MESH; p += n % p == 0 ? 0 : 1)
        if (n % p == 0) {
            prime[at] = p;
            of[at++] = axis;
            n /= p;
        }
    return at;
}

void cleave_mesh_of_primes(int32_t n_devices, cleave_mesh *mesh) {
    int8_t ignored[CLEAVE_MAX_MESH];
    mesh->n = put_primes(n_devices, 0, 0, mesh->size, ignored);
}

static void find_strides(int n, const int32_t *size, int32_t *stride) {
    int32_t s = 1;
    for (int i = n - 1; i >= 0; i--) {
        stride[i] = s;
        s *= size[i];
    }
}

/* The digits of a split's parts, outermost first, and how many parts each steps over. */
typedef struct digits {
    int n;
    int32_t prime[CLEAVE_MAX_MESH], step[CLEAVE_MAX_MESH];
    int8_t axis[CLEAVE_MAX_MESH];
} digits;

static digits digits_of(const cleave_split *split) {
    digits d = {.n = 0};
    d.n = put_primes(split->replicas, CLEAVE_MESH_REPEATS, 0, d.prime, d.axis);
    for (int8_t a = 0; a < CLEAVE_MAX_AXES; a++)
        d.n = put_primes(split->degree[a], a, d.n, d.prime, d.axis);
    find_strides(d.n, d.prime, d.step);
    return d;
}

/* The dimension of the mesh along which each digit moves; false where there is none. */
static bool match_digits(const cleave_mesh *mesh, const int32_t *stride, const cleave_split *split,
                         const digits *d, int *dimension) {
    bool taken[CLEAVE_MAX_MESH] = {false};
    for (int j = 0; j < d->n; j++) {
        int32_t moves = split->devices[d->step[j]] - split->devices[0];
        int i = 0;
        while (i < mesh->n && (taken[i] || stride[i] != moves || mesh->size[i] != d->prime[j]))
            i++;
        if (i == mesh->n || split->devices[0] / stride[i] % mesh->size[i] != 0)
            return false;
        taken[i] = true;
        dimension[j] = i;
    }
    for (int32_t part = 0; part < split->n_parts; part++) {
        int32_t device = split->devices[0];
        for (int j = 0; j < d->n; j++)
            device += part / d->step[j] % d->prime[j] * stride[dimension[j]];
        if (device != split->devices[part])
            return false;
    }
    return true;
}

const char *cleave_mesh_find_cut(const cleave_mesh *mesh, const cleave_split *split,
                                 cleave_mesh_cut *cut) {
    int32_t stride[CLEAVE_MAX_MESH];
    int dimension[CLEAVE_MAX_MESH];
    digits d = digits_of(split);
    find_strides(mesh->n, mesh->size, stride);
    memset(cut->axis, CLEAVE_MESH_REPEATS, sizeof cut->axis);
    if (!match_digits(mesh, stride, split, &d, dimension))
        return "its devices are in an order that no mesh has";
    for (int j = 1; j < d.n; j++)
        if (d.axis[j] == d.axis[j - 1] && d.axis[j] >= 0 && dimension[j] < dimension[j - 1])
            return "an axis is cut by an inner dimension of the mesh before an outer one";
    for (int i = 0; i < mesh->n; i++)
        cut->axis[i] = cleave_mesh_alone(split->devices[0] / stride[i] % mesh->size[i]);
    for (int j = 0; j < d.n; j++)
        cut->axis[dimension[j]] = d.axis[j];
    return NULL;
}

bool cleave_mesh_widen(const cleave_mesh *mesh, cleave_mesh_cut *cut) {
    bool any = false;
    for (int i = 0; i < mesh->n; i++)
        if (cleave_mesh_is_alone(cut->axis[i])) {
            cut->axis[i] = CLEAVE_MESH_REPEATS;
            any = true;
        }
    return any;
}

static bool all_agree(const cleave_mesh_cut *cuts, int32_t n, int i) {
    for (int32_t k = 0; k < n; k++) {
        int32_t outer = cuts[k].axis[i], inner = cuts[k].axis[i + 1];
        bool alone = cleave_mesh_is_alone(outer) && cleave_mesh_is_alone(inner);
        if (outer != inner && !alone)
            return false;
    }
    return true;
}

static int32_t join_one(int32_t outer, int32_t inner, int32_t inner_size) {
    return cleave_mesh_is_alone(outer)
               ? cleave_mesh_alone(cleave_mesh_coordinate(outer) * inner_size +
                                   cleave_mesh_coordinate(inner))
               : outer;
}

void cleave_mesh_join(cleave_mesh *mesh, cleave_mesh_cut *cuts, int32_t n) {
    for (int i = 0; i + 1 < mesh->n;) {
        if (!all_agree(cuts, n, i)) {
            i++;
            continue;
        }
        int32_t inner = mesh->size[i + 1];
        size_t behind = (size_t)(mesh->n - i - 2) * sizeof(int32_t);
        mesh->size[i] *= inner;
        mesh->n--;
        memmove(&mesh->size[i + 1], &mesh->size[i + 2], behind);
        for (int32_t k = 0; k < n; k++) {
            int32_t *axis = cuts[k].axis;
            axis[i] = join_one(axis[i], axis[i + 1], inner);
            memmove(&axis[i + 1], &axis[i + 2], behind);
        }
    }
}

int32_t cleave_mesh_degree(const cleave_mesh *mesh, const cleave_mesh_cut *cut, int axis) {
    int32_t degree = 1;
    for (int i = 0; i < mesh->n; i++)
        degree *= cut->axis[i] == axis ? mesh->size[i] : 1;
    return degree;
}

cleave_status cleave_mesh_split(const cleave_mesh *mesh, const cleave_mesh_cut *cut,
                                cleave_arena *arena, cleave_split *split, cleave_error *error) {
    int32_t stride[CLEAVE_MAX_MESH];
    find_strides(mesh->n, mesh->size, stride);
    cleave_split made = {.n_parts = 1};
    int32_t first = 0;
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        made.degree[a] = cleave_mesh_degree(mesh, cut, a);
    made.replicas = cleave_mesh_degree(mesh, cut, CLEAVE_MESH_REPEATS);
    for (int i = 0; i < mesh->n; i++)
        if (cleave_mesh_is_alone(cut->axis[i]))
            first += cleave_mesh_coordinate(cut->axis[i]) * stride[i];
        else
            made.n_parts *= mesh->size[i];
    made.devices = CLEAVE_ARENA_ARRAY(arena, int32_t, made.n_parts);
    if (made.devices == NULL)
        return cleave_fail_memory(error, "reading a plan back");
    for (int32_t part = 0; part < made.n_parts; part++) {
        int32_t rest = part;
        made.devices[part] = first;
        for (int a = CLEAVE_MAX_AXES - 1; a >= CLEAVE_MESH_REPEATS; a--)
            for (int i = mesh->n - 1; i >= 0; i--)
                if (cut->axis[i] == a) {
                    made.devices[part] += rest % mesh->size[i] * stride[i];
                    rest /= mesh->size[i];
                }
    }
    *split = made;
    return CLEAVE_OK;
}

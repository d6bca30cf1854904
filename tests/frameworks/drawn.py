"""Operators of layouts drawn at random, on meshes that PyTorch and JAX can say, and a machine for small models."""
import itertools
import math

# So slow that small models are worth splitting.
MACHINE = {"cleave_machine": 1, "name": "slow", "network": {"join": 0, "through": "switch", "bandwidth": "50 MB/s",
                                                            "latency": "1 us"},
           "kinds": {"slow": {"memory": "1 GiB", "flops": "20 MFLOP/s", "memory_bandwidth": "1 GB/s",
                              "efficiency": {"product": 1, "memory": 1}, "launch": "1 us", "source": "made up"}},
           "node": {"count": 8, "devices": 1, "kind": "slow", "links": []}}


def primes(n):
    return [] if n == 1 else next([p] + primes(n // p) for p in range(2, n + 1) if n % p == 0)


def draw_operator(rng, axes, mesh, narrow, even=False):
    """Every dimension of the mesh cuts an axis or repeats the operator, or (`narrow`) leaves it to some: their coordinate;
    devices in the order of a layout file.  `even`: into equal blocks."""
    while True:
        choice = [rng.choice([None, *axes, *axes]) for _ in mesh]
        choice = [rng.randrange(size) if narrow and rng.random() < 0.25 else axis for axis, size in zip(choice, mesh)]
        degree = {a: 1 for a in axes}
        for size, axis in zip(mesh, choice):
            if axis in degree:
                degree[axis] *= size
        if all(axes[a] >= d and not (even and axes[a] % d) for a, d in degree.items()):
            break
    order = [(i, size) for wanted in [None, *axes] for i, (size, axis) in enumerate(zip(mesh, choice)) if axis == wanted]
    stride = [math.prod(mesh[i + 1:]) for i in range(len(mesh))]
    first = sum(at * stride[i] for i, at in enumerate(choice) if isinstance(at, int))
    devices = [first + sum(digit * stride[i] for digit, (i, _) in zip(digits, order))
               for digits in itertools.product(*(range(size) for _, size in order))]
    replicas = len(devices) // math.prod(degree.values())
    return {"split": {a: d for a, d in degree.items() if d > 1}, "replicas": replicas, "devices": devices}


def draw_even(rng, layout, operators, n_devices, parameters):
    """Equal blocks of every operator of a layout, on a mesh of one dimension or of all, and shares of some parameters."""
    mesh = rng.choice([[n_devices], primes(n_devices)])
    for name, operator in operators.items():
        axes = {axis: n for axis, n in operator["axes"].items() if axis not in operator.get("never_split", {})}
        layout["operators"][name] = draw_operator(rng, axes, mesh, False, even=True)
    layout["parameters"] = {name: {"update": "sharded"} for name in parameters if rng.random() < 0.3}

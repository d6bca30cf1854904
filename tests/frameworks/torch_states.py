#!/usr/bin/env python3
"""What people do with a model besides training it plainly, under plans: states, checkpoints, clipped gradients, models built on
the meta device, validation, autocast, activations that are computed again, other optimizers and what comes with them.

usage: torch_states.py CLEAVE TREE [--ranks N] [--models NAME,...]

A model is trained two steps under the plan that is found, its gradients clipped, and saved by
torch.distributed.checkpoint; that is loaded by a model without a plan, by one under a drawn plan, of which some is on one
rank alone, and by one that was built on the meta device: they have the very values, and the third step of each is that of
one device.  A checkpoint of one device loads under a plan likewise, and one of an optimizer's state under another.  Gradients
are the same however one comes by them.
Exits 77 where there is no PyTorch.
"""
import argparse
import copy
import inspect
import json
import os
import sys
import tempfile
import warnings

import torch_plans as plans  # exits 77 without PyTorch

import ranks as gloo
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

CLIP, TOLERANCE = 0.05, 1e-10


def step(model, inputs, targets):
    """One of plain SGD, so that a step has no state but the model's; the norm of the gradients before they are clipped."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    F.cross_entropy(model(*inputs), targets).backward()
    norm = plans.whole(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP))
    optimizer.step()
    return norm.item()


def values(model):
    return {name: plans.whole(x).clone() for name, x in model.state_dict().items()}


def save(model, folder):
    checkpoint.save(model.state_dict(), checkpoint_id=folder)
    dist.barrier()


def load(model, folder):
    state = model.state_dict()
    checkpoint.load(state, checkpoint_id=folder)
    model.load_state_dict(state)
    return model


class Blocks(torch.nn.Module):
    """Functions that DTensor lacks, of what is cut, within what is computed again; a parameter that only functions read."""

    def __init__(self, reentrant):
        super().__init__()
        self.tokens, self.head, self.reentrant = torch.nn.Embedding(64, 16), torch.nn.Linear(16, 64), reentrant
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.scale = torch.nn.Parameter(torch.ones(16))

    def block(self, x):
        a, b = self.up(x).unflatten(-1, (2, 16)).transpose(0, 2).flip(0).transpose(0, 2).flatten(2).chunk(2, -1)
        return F.hardswish(x) * self.scale + self.down(torch.cat([F.elu(a), b[..., 8:], b[..., :8]], -1))

    def forward(self, ids):
        x = self.tokens(ids)
        for _ in range(2):
            x = self.block(x) if self.reentrant is None else \
                torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=self.reentrant)
        return self.head(x).flatten(0, 1)


def plan_blocks(folder):
    """Samples, columns and rows."""
    def part(axis, given, gives, weight, bias="R"):
        own = {"weight": [weight]} if bias is None else {"weight": [weight], "bias": [bias]}
        return {"operator": "made up", "type": "MatMul", "axes": [axis], "rank": 3, "input": [given], "output": [gives],
                "then": ["S0" if gives == "P" else gives], "parameters": own}
    modules = {"tokens": {**part("k", "R", "S2", "S1", None), "type": "Gather"}, "up": part("k", "R", "S2", "S0", "S0"),
               "down": part("c", "S2", "P", "S1"), "head": part("n", "S0", "S0", "R")}
    file = os.path.join(folder, "blocks.plan.json")
    with open(file, "w", encoding="utf-8") as stream:
        json.dump({"cleave_plan": 1, "for": "torch", "model": {"file": "made up"}, "mesh": [dist.get_world_size()], "modules": modules,
                   "functions": {}, "loss": None, "parameters": {}, "lost": []}, stream)
    dist.barrier()
    return file


def check_again(folder):
    """Activations that are computed again in backward are what they were in the forward."""
    import cleave.torch
    torch.manual_seed(6)
    file, first, wrong = plan_blocks(folder), Blocks(None).double(), []
    ids, targets = torch.randint(64, (4, 5)), torch.randint(64, (20,))
    F.cross_entropy(first(ids), targets).backward()
    for reentrant in (None, False, True):
        model = Blocks(reentrant).double()
        model.load_state_dict(first.state_dict())
        model = cleave.torch.apply(model, file)
        F.cross_entropy(model(ids), targets).backward()
        off, where = plans.apart({n: plans.whole(p.grad) for n, p in model.named_parameters()},
                                 {n: p.grad for n, p in first.named_parameters()})
        wrong += [] if off < TOLERANCE else [f"computed again ({reentrant}), the gradient of {where} is off by {off:.1e}"]
    return wrong


def by_lbfgs(model, inputs, targets):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*inputs), targets)
        loss.backward()
        return loss
    optimizer.step(closure)


def by_steps(model, inputs, targets):
    """Decay of weights alone, a rate that changes, gradients of halves that add up, and values of them that are clipped."""
    groups = [[p for p in model.parameters() if (p.dim() > 1) == of_weights] for of_weights in (True, False)]
    optimizer = torch.optim.AdamW([{"params": groups[0], "weight_decay": 0.1}, {"params": groups[1], "weight_decay": 0.0}], lr=1e-2, eps=1e-3,
                                  foreach=True)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=4)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        for *x, t in zip(*(x.chunk(2) for x in inputs), targets.chunk(2)):
            (F.cross_entropy(model(*x), t) / 2).backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1e-2)
        optimizer.step(), rates.step()


def by_scaler(model, inputs, targets):
    """One step of three is left out, since its gradients are not finite."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for scale in (1.0, 1e308, 1.0):
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(*inputs), targets) * scale).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        scaler.step(optimizer), scaler.update()
    if scaler.get_scale() != 2048.0:
        raise RuntimeError(f"the scale is {scaler.get_scale()}")


def by_average(model, inputs, targets):
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    for _ in range(2):
        step(model, inputs, targets)
        average.update_parameters(model)
    with torch.no_grad():
        average(*inputs)
    model.load_state_dict(average.module.state_dict())


def by_half(model, inputs, targets):
    """Every second parameter stays as it was."""
    for p in list(model.parameters())[::2]:
        p.requires_grad_(False)
    step(model, inputs, targets)


LOOPS = (by_steps, by_scaler, by_average, by_half)


class Check:
    def __init__(self, name, folder):
        self.name, self.folder, self.wrong = name, folder, []

    def same(self, what, mine, expected, tolerance=TOLERANCE):
        if set(mine) != set(expected):
            self.wrong.append(f"{what}: other names")
            return
        off, where = plans.apart(mine, expected)
        if not off <= tolerance:
            self.wrong.append(f"{what}: {where} is off by {off:.1e}")

    def gradients(self, model, inputs, targets):
        """Summed up many by one collective, added to those before, seen by hooks, asked for: the same."""
        named, seen = dict(model.named_parameters()), {}

        def loss():
            return F.cross_entropy(model(*inputs), targets)

        def in_grad(share=1.0):
            return {name: plans.whole(p.grad) * share for name, p in named.items()}
        loss().backward()
        together = in_grad()
        loss().backward()
        self.same("gradients that add up", in_grad(0.5), together)
        asked = dict(zip(named, torch.autograd.grad(loss(), list(named.values()))))
        self.same("gradients that are asked for", {name: plans.whole(g) for name, g in asked.items()}, together)
        hooks = [p.register_hook(lambda g, name=name: seen.__setitem__(name, g)) for name, p in named.items()]
        model.zero_grad()
        loss().backward()
        self.same("gradients with hooks", in_grad(), together)
        self.same("gradients that hooks see", {name: plans.whole(g) for name, g in seen.items()}, together)
        for hook in hooks:
            hook.remove()

    def losses(self, model, planned, inputs):
        """Other losses than that of the plan."""
        for loss in (F.mse_loss, F.smooth_l1_loss, torch.nn.BCEWithLogitsLoss()):
            found = []
            for each in (model, planned):
                each.zero_grad()
                given = each(*inputs)
                torch.manual_seed(3)
                of = getattr(F, loss.__name__) if hasattr(loss, "__name__") else loss
                value = of(given, torch.rand(given.shape, dtype=torch.double))
                value.backward()
                found.append({"loss": value.detach(), **{name: plans.whole(p.grad) for name, p in each.named_parameters()}})
            self.same(f"{loss}", *reversed(found))
            planned.zero_grad()

    def loops(self, first, found, drawn, inputs, targets):
        """As in other loops; LBFGS, of all parameters in one, where all ranks have all of them."""
        import cleave.torch
        if inspect.signature(cleave.torch.apply(copy.deepcopy(first), found).forward) != inspect.signature(first.forward):
            self.wrong.append("the forward has another signature")
        for loop in (*LOOPS, by_lbfgs):
            one = copy.deepcopy(first)
            loop(one, inputs, targets)
            for plan in (found, drawn) if loop in LOOPS else (found,):
                mine = cleave.torch.apply(copy.deepcopy(first), plan)
                try:
                    loop(mine, inputs, targets)
                except NotImplementedError:  # DTensor has no product of vectors in PyTorch 2.6, which LBFGS makes
                    if loop is not by_lbfgs:
                        raise
                    break
                self.same(f"{loop.__name__}, {os.path.basename(plan)}", values(mine), values(one))

    def optimizers(self, first, found, drawn, inputs, targets):
        """The state of an optimizer is saved under one plan and loaded under another, or none."""
        import cleave.torch

        def make(plan):
            model = copy.deepcopy(first)
            model = cleave.torch.apply(model, plan) if plan else model
            return model, torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)

        def train(model, optimizer):
            optimizer.zero_grad()
            F.cross_entropy(model(*inputs), targets).backward()
            optimizer.step()

        def state(pair):
            model, optimizer = get_state_dict(*pair)
            return {"model": model, "optimizer": optimizer}
        one = make(None)
        train(*one), train(*one), train(*one)
        for i, (before, after) in enumerate(((found, drawn), (drawn, found), (drawn, None), (None, drawn))):
            pair, folder = make(before), os.path.join(self.folder, f"optimizer {i}")
            train(*pair), train(*pair)
            checkpoint.save(state(pair), checkpoint_id=folder)
            dist.barrier()
            pair = make(after)
            saved = state(pair)
            checkpoint.load(saved, checkpoint_id=folder)
            set_state_dict(*pair, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
            train(*pair)
            self.same(f"an optimizer's state, {i}", values(pair[0]), values(one[0]))

    def compiled(self, first, found, inputs, targets):
        """torch.compile of all or of modules, before or after: a plan runs as without it."""
        import cleave.torch

        def of_modules(model):
            for module in model.children():
                module.compile(backend="aot_eager")
            return cleave.torch.apply(model, found)
        gradients = []
        for make in (lambda m: m, of_modules, lambda m: cleave.torch.apply(torch.compile(m, backend="aot_eager"), found),
                     lambda m: torch.compile(cleave.torch.apply(m, found), backend="aot_eager")):
            model = make(copy.deepcopy(first))
            for _ in range(2):
                model.zero_grad()
                F.cross_entropy(model(*inputs), targets).backward()
            gradients.append({n.removeprefix("_orig_mod."): plans.whole(p.grad) for n, p in model.named_parameters()})
        for i, mine in enumerate(gradients[1:]):
            self.same(f"compiled, {i}", mine, gradients[0])

    def modes(self, first, found, drawn, inputs, targets):
        """Without gradients, of another batch, and in torch.autocast, which plans with modules on some ranks alone refuse."""
        import cleave.torch
        one, planned = copy.deepcopy(first), cleave.torch.apply(copy.deepcopy(first), found)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                given = [each.eval()(*(x[:3] for x in inputs)) for each in (one, planned)]
                self.same(f"{mode.__name__}", {"output": cleave.torch.whole(given[1])}, {"output": given[0]})
        losses, said = [], ""
        of = copy.deepcopy(first).float()
        inputs = tuple(x.float() if x.is_floating_point() else x for x in inputs)
        try:
            for each in (of, cleave.torch.apply(copy.deepcopy(of), found), cleave.torch.apply(copy.deepcopy(of), drawn)):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    losses.append(F.cross_entropy(each(*inputs), targets))
                losses[-1].backward()
        except cleave.CleaveError as error:
            said = str(error)
        if len(losses) != 2 or abs(losses[0] - losses[1]) > 5e-3 or "train without autocast" not in said:
            self.wrong.append(f"in autocast losses are {losses}, and \"{said}\"")

    def run(self, make, data, found, drawn):
        import cleave.torch
        torch.manual_seed(1)
        first, (inputs, targets) = make().double(), data(plans.BATCH)
        inputs = tuple(x.double() if x.is_floating_point() else x for x in inputs)
        one = copy.deepcopy(first)
        norms = [step(one, inputs, targets) for _ in range(2)]
        two_steps = values(one)
        save(one, os.path.join(self.folder, "one"))
        step(one, inputs, targets)
        after = values(one)

        self.losses(copy.deepcopy(first), cleave.torch.apply(copy.deepcopy(first), found), inputs)
        self.losses(copy.deepcopy(first), cleave.torch.apply(copy.deepcopy(first), drawn), inputs)
        self.compiled(first, drawn, inputs, targets)
        self.loops(first, found, drawn, inputs, targets)
        self.optimizers(first, found, drawn, inputs, targets)
        self.modes(first, found, drawn, inputs, targets)
        self.gradients(cleave.torch.apply(copy.deepcopy(first), found), inputs, targets)
        planned = cleave.torch.apply(copy.deepcopy(first), found)
        mine = [step(planned, inputs, targets) for _ in range(2)]
        if max(abs(a - b) for a, b in zip(mine, norms)) > TOLERANCE or min(norms) <= CLIP:
            self.wrong.append(f"norms of gradients are {mine}, of one device {norms}")
        self.same("after two steps", values(planned), two_steps)
        two_steps_here = values(planned)
        plain = copy.deepcopy(first)
        plain.load_state_dict(two_steps_here)
        self.same("a state that is loaded without a plan", values(plain), two_steps_here, 0)
        save(planned, os.path.join(self.folder, "planned"))

        with torch.device("meta"):
            empty = make().double()
        empty = cleave.torch.apply(empty, drawn).to_empty(device="cpu")
        for what, model, saved in (("without a plan", copy.deepcopy(first), "planned"),
                                   ("under another plan", cleave.torch.apply(copy.deepcopy(first), drawn), "planned"),
                                   ("from the meta device", empty, "planned"),
                                   ("of one device", cleave.torch.apply(copy.deepcopy(first), found), "one")):
            load(model, os.path.join(self.folder, saved))
            self.same(f"a checkpoint, {what}", values(model), two_steps if saved == "one" else two_steps_here, 0)
            step(model, inputs, targets)
            self.same(f"a step on, {what}", values(model), after)
        return self.wrong


def check_across():
    """Tensors that are cut in other dimensions: what a function of elements reads is exchanged, and gathered nowhere."""
    from cleave.torch import lie
    from cleave.torch.functions import Functions
    from torch.distributed.tensor.debug import CommDebugMode
    n = dist.get_world_size()
    mesh = dist.device_mesh.init_device_mesh("cpu", (n,))
    torch.manual_seed(2)
    a, b = (torch.rand(2 * n, 3 * n, dtype=torch.double) for _ in range(2))
    x, y = (lie.spread(whole, mesh, [word]).requires_grad_() for whole, word in ((a, "S0"), (b, "S1")))
    with CommDebugMode() as sent:
        with Functions(mesh, None):
            z = x * y
        z.backward(lie.spread(torch.ones_like(a), mesh, lie.words_of(z, mesh)))
    wrong = [f"{kind} moves what a product reads" for kind in sent.get_comm_counts() if "all_to_all" not in str(kind)]
    same = all(torch.equal(plans.whole(mine), whole) for mine, whole in ((z, a * b), (x.grad, b), (y.grad, a)))
    return wrong + ([] if same else ["a product of tensors that are cut in other dimensions is another"])


FUNCTIONS = (
    lambda x: x[:, 1:] - x[:, :-1], lambda x: torch.cat([-x[..., 4:], x[..., :4]], -1), lambda x: x[:, [0, 2]], lambda x: x[:, 1, None],
    lambda x: x.diff(dim=1), lambda x: x.narrow(1, 1, 2) * x.select(1, 1)[:, None], lambda x: x.unbind(2)[1] + x.chunk(2, 0)[1].mean(0)[:, 0],
    lambda x: x.split([2, 6], -1)[1], lambda x: x.topk(2, -1)[0], lambda x: x.max(1)[0], lambda x: x.amax((1, 2)), lambda x: x.prod(0),
    lambda x: x.var(1), lambda x: x.norm(dim=-1), lambda x: x.mean((0, 1)), lambda x: x - x.mean(), lambda x: F.normalize(x, dim=1),
    lambda x: F.pad(x, (0, 0, 1, 1)), lambda x: F.interpolate(x, scale_factor=2), lambda x: torch.stack([x, x * 2], -1),
    lambda x: x.gather(1, torch.zeros(4, 2, 8, dtype=torch.long)), lambda x: x.index_add(1, torch.tensor([0, 1]), x[:, :2]),
    lambda x: F.group_norm(x, 1, x.mean((0, 2)), x.mean((0, 2))), lambda x: x @ x.transpose(1, 2),
    lambda x: (x > 1).any(1).to(x.dtype) * x.argmax(1).to(x.dtype) * x.sum(1))


def check_functions():
    """Functions between modules of what is cut, unevenly, too, and their gradients: DTensor lacks some, and is wrong about others."""
    from cleave.torch import lie
    from cleave.torch.functions import Functions
    mesh, wrong = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),)), []
    torch.manual_seed(5)
    whole = torch.randn(4, 5, 8, dtype=torch.double)
    for i, function in enumerate(FUNCTIONS):
        for word in ("S0", "S1", "S2"):
            x, mine = whole.clone().requires_grad_(), lie.spread(whole, mesh, [word]).requires_grad_()
            y = function(x)
            with Functions(mesh, None):
                found = lie.whole(function(mine), mesh)
            back = torch.randn(y.shape, dtype=torch.double)
            (y * back).sum().backward(), (found * back).sum().backward()
            off = max((found - y).abs().max(), (lie.whole(mine.grad, mesh) - x.grad).abs().max())
            wrong += [] if off < TOLERANCE else [f"function {i} of what is {word} is off by {off:.1e}"]
    return wrong


def check_classes():
    """A loss of logits of 16 bits that are cut by classes is summed in 32, as PyTorch's own is."""
    from cleave.plan import Part
    from cleave.torch import functions, lie
    n = dist.get_world_size()
    mesh = dist.device_mesh.init_device_mesh("cpu", (n,))
    torch.manual_seed(4)
    whole, targets = torch.randn(64, 16 * n).bfloat16(), torch.randint(16 * n, (64,))
    loss = functions._mean_cross_entropy(lie.spread(whole, mesh, ["S1"]), targets, Part("", "", ["v"], ["S1"]), -100, mesh)
    off = abs(loss.item() - F.cross_entropy(whole.float(), targets).item())
    return [f"a loss of 16 bits is off by {off:.1e}"] if off > 1e-5 else []


def check_clipped():
    """Gradients that DTensor leaves in parts that add up, as of what PyTorch's own attention reads."""
    from cleave.torch import clip, lie
    from torch.distributed.tensor import DTensor, Partial
    n, ones = dist.get_world_size(), torch.ones(4, dtype=torch.double)
    mesh = dist.device_mesh.init_device_mesh("cpu", (n,))
    lie.plan_on(mesh)
    x = torch.nn.Parameter(lie.spread(ones, mesh, ["R"]))
    x.grad = DTensor.from_local(ones * (dist.get_rank() + 1), mesh, [Partial()], run_check=False)
    norm = clip.clip_grad_norm_([x], 1.0).item()  # of n (n + 1) / 2 in each of four
    off = max(abs(norm - n * (n + 1)), abs(plans.whole(x.grad) - 0.5).max().item())
    return [f"the norm of parts is {norm}"] if off > 1e-6 else []


def check_given():
    """Plain tensors that are spread get their gradient on every rank, also on one that has none of them."""
    from cleave.torch import lie
    mesh, wrong = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),)), []
    lie.plan_on(mesh)
    for word in ("R", "S0", "@0"):
        x = torch.ones(4, 3, dtype=torch.double, requires_grad=True)
        (lie.whole(lie.spread(x, mesh, [word]) * 2, mesh) ** 2).sum().backward()
        wrong += [] if torch.equal(x.grad, torch.full_like(x, 8)) else [f"the gradient of what is given as {word} is {x.grad}"]
    return wrong


def check_unscaled():
    """What is not finite on one rank alone is found by all; of a list that begins with what others have this rank's own is done."""
    from cleave.torch import lie
    ones = torch.ones(4, dtype=torch.double)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    lie.plan_on(mesh)
    alone, both = lie.spread(ones * float("inf"), mesh, ["@0"]), lie.spread(ones * 2, mesh, ["R"])
    found, scale = torch.zeros(()), torch.full((), 0.5)
    torch._amp_foreach_non_finite_check_and_unscale_([alone, both], found, scale)
    wrong = [] if found.item() == 1 and torch.equal(both.to_local(), ones) else [f"unscaled, {found.item()} and {both.to_local()}"]
    halves = torch._foreach_mul([alone, both], 0.5)
    return wrong if torch.equal(halves[1].to_local(), ones / 2) else wrong + [f"halves of ones are {halves[1].to_local()}"]


def work(cases, models, folder):
    warnings.simplefilter("ignore")  # of PyTorch's own files
    wrong = check_across() + check_functions() + check_classes() + check_clipped() + check_again(folder) + \
        check_unscaled() + check_given()
    for name, found, drawn in cases:
        saved = os.path.join(folder, name)
        for what in Check(name, saved).run(*models[name], found, drawn):
            wrong.append(f"{name}: {what}")
    if dist.get_rank() == 0:
        print("\n".join(wrong), flush=True)
    return not wrong


class Config(dict):
    def to_json_string(self):
        return json.dumps(self)


def check_described(models, folder):
    """A model with a config is planned by that where it is what Cleave makes of it, and else as ONNX."""
    from cleave.torch.export import describe
    inputs, _ = models.MODELS["llama"][1](2)
    model, of = models.Llama(), {}
    model.config = Config(model.config)
    of["its own"] = describe(model, inputs, 2, folder)[1]
    model.lm_head, model.score = torch.nn.Identity(), model.lm_head
    of["another"] = describe(model, inputs, 2, folder)[1]
    model.config["model_type"] = "unheard-of"
    of["an unknown"] = describe(model, inputs, 2, folder)[1]
    if [os.path.basename(file) for file in of.values()] != ["config.json", "model.onnx", "model.onnx"]:
        sys.exit(f"described as {of}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cleave"), parser.add_argument("tree")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--models", default="residual,llama")
    a = parser.parse_args()
    os.environ["CLEAVE"] = a.cleave
    sys.path[:0] = [os.path.join(a.tree, "python")]
    import cleave
    import cleave.torch
    import models
    with tempfile.TemporaryDirectory() as folder:
        check_described(models, folder)
        tools, cases = plans.Tools(folder, cleave, models), []
        for name in a.models.split(","):
            found, _, drawn = tools.cases(name, *models.MODELS[name], a.ranks, 2, 1)  # the second has some on one rank
            cases.append((name, found.plan, drawn.plan))
        if not gloo.all_succeed(work, a.ranks, cases, models.MODELS, folder):
            sys.exit(1)
    print(f"states of {a.models} on {a.ranks} ranks: all as one device's")


if __name__ == "__main__":
    main()

"""docs/published.md: what tests/bench/published.py found, written down with the date and the commit."""
import datetime
import re
import subprocess

# What is known of misses: the first pattern that fits a run's name or group tells.
REASONS = [
    (r"Llama3.1-8B \d+ FSDP$", "as far off as with a compiler: nothing was measured of Hopper, and the shares of its peaks are "
                               "carried over"),
    (r"Llama3.1-8B \d+ FSDP\+compile$", "nothing was measured of Hopper: the shares of its peaks are carried over"),
    (r"mit N2 ", "memory: less than weights, gradients and Adam's state of 12 layers and what its authors count besides; step: two devices "
                 "share products by messages, where NCCL all-reduces, and one of a layer's products is done by both"),
    (r"deepseek", "tables of grouped products are off by 6 to 11 % at kernels, and tokens are spread evenly among experts"),
    (r"seq\d+_mbc", "each all-to-all around attention keeps a copy of its own"),
    (r"30b .* (8192|4096) 1$|(13b|70b) a100_40gb", "micro-batches that nearly fill the memory, where PyTorch's allocator asks the "
                                                     "device for memory again and again: not modelled"),
    (r"350m a100", "FlashAttention-2 is taken to be 1.4 and 2 times as quick as attention in Triton at every length; of heads of 64 "
                   "the figures of its authors differ by length"),
    (r"760m a100_80gb x8 (2048 24|1024 48|512 96)", "figures of two runs alone: of 1,024 and 512 tokens they are at 48 and 45 % of the peak, of 2,048 at 57 %, and "
                                                    "the same model on cards of 40 GB, with micro-batches half as large, at 54 % at both lengths"),
    (r"1b a100_40gb x32 ", "a figure of this run alone: it is at 45 % of the peak, the same on 16, 64 and 128 GPUs at 54 to 56 %"),
    (r"125m a100_40gb x(32|64|128) ", "one micro-batch of 0.4 s a step, so that what comes once a step is a larger share: on 8 GPUs three of them "
                                      "are at 43 % of the peak, these at 39 to 40 %; not modelled"),
    (r"\d+[mb] h100_80gb", "nothing was measured of Hopper: the shares of its peaks are carried over"),
    (r"a100_40gb x8 512", "eager kernels of short sequences, and a gradient that is clipped, are not modelled"),
    (r"FSDP\+TP", "three projections of one input, whose gradients a compiler adds up and lays out for the reduce-scatter in one kernel, "
                  "where Cleave adds them one after the other"),
    (r"GPT-NEO-2.7B clariden N8 pp4", "memory: the same with 4, 8 and 16 replicas had 37.3 to 37.5 GB in use, this 28.5; the last line of its log, which counts, "
                                      "may be of no whole step"),
    (r"clariden N\d+ pp\d+ mbs[12]$|OPT-350M clariden N\d+ pp1 mbs4$", "launches by Python take longer than kernels: a layer that Sailor's authors timed takes 1.5 ms forward and 1.7 "
                                       "backward however small the micro-batch is; not modelled; memory: nor that the host is "
                                       "then not ahead of the device, and what is all-reduced need not be held"),
    (r"OPT-350M clariden", "stages ask the device for sizes of what they are sent, twice a micro-batch (reconstruct_tensor of its DeepSpeed), and then "
                           "launch anew: layers as its authors timed them leave as much over"),
    (r"clariden", "memory: what NCCL has, which is one figure for all; GPT-Neo's table is left out, which the first stage has"),
    (r"mit", "all cards of a node share its way out, by one measured rate for messages of all sizes; memory: what is not torch's is one figure for all"),
    (r"405b", "products of 16,384 columns run at a lower clock than shorter ones; the table knows the smallest extent alone"),
    (r"70b_l12", "within what the table of products is off by at measured kernels"),
]


def spoken(name):
    """A source's name of a run, which is no name of anything in this tree."""
    return name.replace("_", " ")


def reason(run):
    text = f"{run['name']}"
    for pattern, why in REASONS:
        if re.search(pattern, text) or re.search(pattern, run["group"]):
            return why
    return "not found out"


def percent(x):
    return f"{100 * x:+.1f} %"


def errors(run):
    made = {}
    for what in ("step_seconds", "memory_bytes", "reserved_bytes"):
        measured = run.get("measured_" + what)
        if measured:
            made[what] = run[what] / measured - 1
    return made


def markdown(rows):
    lines = ["| " + " | ".join(str(x) for x in row) + " |" for row in rows]
    lines.insert(1, "|---" + "|---:" * (len(rows[0]) - 1) + "|")
    return "\n".join(lines)


def parts(run):
    names = sorted(((share, name) for name, share in run["step_parts"].items() if share > 0.02), reverse=True)
    return ", ".join(f"{name} {100 * share:.0f} %" for share, name in names)


def misses(results, most_step, most_memory):
    """A line for each run that is further off than is aimed at."""
    rows = [["run", "step", "error", "memory", "made of", "supposed cause"]]
    for result in results.values():
        for run in result["runs"] if result else []:
            if "refused" in run:
                continue
            off = errors(run)
            memory = off.get("memory_bytes", off.get("reserved_bytes", 0))
            if abs(off.get("step_seconds", 0)) <= most_step and abs(memory) <= most_memory:
                continue
            rows.append([spoken(run["name"]), f"{run['step_seconds']:.3f} s",
                         percent(off["step_seconds"]) if "step_seconds" in off else "-",
                         percent(memory) if memory else "-", parts(run), reason(run)])
    return rows


def misranked(results):
    """Of each group, the pairs that were measured 5 % apart and are foreseen the other way round, and who is in most of them."""
    rows = [["group", "pairs", "wrong", "most of them with", "supposed cause"]]
    for result in results.values():
        for of in result["groups"] if result else []:
            runs = [run for run in result["runs"] if run["group"] == of["group"] and run.get("measured_step_seconds")
                    and "refused" not in run]
            wrong = {}
            for i, run in enumerate(runs):
                for other in runs[:i]:
                    quick, slow = sorted((run, other), key=lambda x: x["measured_step_seconds"])
                    if slow["measured_step_seconds"] > 1.05 * quick["measured_step_seconds"] and \
                            slow["step_seconds"] <= quick["step_seconds"]:
                        for one in (run, other):
                            wrong.setdefault(one["line"], []).append(one)
            if wrong:
                worst = max(wrong.values(), key=len)
                rows.append([of["group"], of["step"]["pairs"], sum(len(x) for x in wrong.values()) // 2,
                             f"{spoken(worst[0]['name'])} ({len(worst)})", reason(worst[0])])
    return rows


def groups(results):
    rows = [["group", "runs", "priced", "step: median", "90 %", "tau", "pairs", "memory: median", "reserved: median"]]
    for result in results.values():
        for of in result["groups"] if result else []:
            if of["group"] is None:
                continue
            step, memory, reserved = of["step"], of["memory"], of["reserved"]
            rows.append([of["group"], of["runs"], of["priced"], f"{100 * step['median_error']:.1f} %" if step else "-",
                         f"{100 * step['ninth_decile_error']:.1f} %" if step else "-",
                         f"{step['tau']:.2f}" if step and step["tau"] is not None else "-",
                         step["pairs"] if step else "-", f"{100 * memory['median_error']:.1f} %" if memory else "-",
                         f"{100 * reserved['median_error']:.1f} %" if reserved else "-"])
    return rows


def planned(results):
    """Runs in bf16 of the models that torchtitan's table has, with memory."""
    rows = [["run", "step", "error", "allocated", "reserved", "error, or why it is not priced"]]
    for run in (results.get("torchtitan") or {"runs": []})["runs"]:
        if "refused" in run:
            rows.append([spoken(run["name"]), "-", "-", "-", "-", run["refused"]])
            continue
        off = errors(run)
        rows.append([spoken(run["name"]), f"{run['step_seconds']:.3f} s", percent(off["step_seconds"]),
                     *(f"{run[key] / 2**30:.1f} GiB" for key in ("memory_bytes", "reserved_bytes")),
                     percent(off["reserved_bytes"]) if "reserved_bytes" in off else "-"])
    return rows


def plans_found(plans):
    """What a search finds for the same models."""
    rows = [["model", "H100s", "batch", "found", "stages", "micro-batches", "peak", "searched", "zero-3", "megatron", "no plan beats"]]
    for name, devices, batch, plan in plans:
        if plan is None:
            rows.append([name, devices, batch, *["-"] * 8])
            continue
        known = [plan["baselines"][key] for key in ("zero-3", "megatron")]
        rows.append([name, devices, batch, f"{plan['step_seconds']:.3f} s", plan["stages"], plan["micro_batches"],
                     f"{plan['peak_bytes'] / 2**30:.1f} GiB", f"{plan['search_seconds']:.0f} s",
                     *("-" if x is None else f"{x:.3f} s" for x in known), f"{plan['lower_bound_seconds']:.3f} s"])
    return markdown(rows) if plans else "Not asked for (`--plan`)."


def passes(forward):
    """Passes forward beside what was measured of them."""
    rows = [["pass", "precision", "batch", "length", "predicted", "measured", "error"]]
    for row, seconds in forward:
        measured = float(row["measured_ms"]) / 1000
        rows.append([row["name"], row["precision"], row["batch"], row["sequence"] or "-", f"{1000 * seconds:.1f} ms", f"{1000 * measured:.1f} ms",
                     percent(seconds / measured - 1)])
    return rows


INTRODUCTION = """# Published runs

Written by `tests/bench/published.py FOLDER --page docs/published.md{options}` on {date}, at commit {commit}. The
measurements are others' and stand in their own places ([formats.md](formats.md#runs-that-were-measured) has the columns) and no part of this project. Nothing is fitted to whole runs:
every figure of `configs/machines` comes from measured kernels, measured collectives, data sheets or documents, and its file says which.

## Runs

Errors are predicted / measured - 1; tau ranks runs of a group that were measured 5 % apart. Memory is what a framework allocates, and
what its allocator reserves for that stands by itself: torchtitan's and Sailor's tables have the latter alone.

{table}

Of each group:

{groups}

Ranked wrongly, among runs that were measured 5 % apart:

{misranked}

Not priced:

{refused}

## Misses

Runs whose step is more than {most_step:.0f} % off or whose memory is more than {most_memory:.0f} % off.

{misses}

## Planning beside torchtitan's table

Llama 3.1 8B, 70B and 405B on H100s of 500 W, as `validate` prices the layouts that torchtitan ran.

{planned}

What `search` finds for them, texts of 8,192 tokens, bf16, AdamW, within 96 GiB; the peak is that of the plan, messages and all, and steps are as
far off as those above:

{found}

## One pass forward

Passes of one device that NVIDIA's DeepLearningExamples report (a batch over a mean of sequences a second, or a mean latency; evaluation as a whole, its host and its
copies included), and what `search --forward` says of the device alone. Small batches wait for the host, which launches some hundreds of kernels: that is not modelled, so
neither is their latency. f32 of an A100 is TF32, of a V100 it is not; convolutions in f32 are counted as they are written, where cuDNN's have fewer multiplications; scores are stored.

{forward}

## Effects that are left out

It only reports: nothing is chosen by it. Bubbles are left out by their formula; that collectives and computes slow each other down is not modelled, so
there is nothing of it to leave out. The median error of the step:

{effects}

## Prices

| what | where it comes from |
|---|---|
| products | a share of the peak that depends on their smallest extent: SimuMax's measured kernels of B200 and A100 PCIe, Mist's of L4s; gradients of weights, which are added up in f32, by a table of their own, and those of several experts at once likewise (of an A100 these are as other products) |
| attention | a share that depends on its flops, of the same kernels; on Hopper 0.593 of an A100's, since FlashAttention-2 gets 35 % of it (Shah et al., 2024) |
| **chips of which no kernels were measured** (H100, H200, GH200, and RTX but for products) | the mean of the shares that A100 and B200 reach, at every extent, and of the memory's rate, too |
| an L4 | twice: as it comes, its clock falling under load, and at the 1,050 MHz that Mist's README asks for (`nvidia-smi -ac 6251,1050`), at which its runs and a part of its kernels were measured |
| collectives within a node | bandwidth and latency of nccl-tests (vTrain: A100; SimuMax: B200), elsewhere the same share of the links |
| links between nodes | 0.8 of the cards |
| what a framework does besides | its code: one kernel or several (`graph/program/one_kernel.h`), copies and sums (`graph/program/framework.h`), memory (`graph/program/framework_memory.h`, `graph/program/gathered_layers.h`); a row names its framework |

## Kernels and their tables

How far the tables are from the kernels that they were made of (of the L4 as it comes, attention's are of heads of 128; those of 80 reach 0.7 of it, and
the smallest are launches; what reads and writes only by the traffic of the rule, times memory's share, where Megatron's softmax leaves out the half of the
scores that is hidden, and its cross-entropy is spelled out):

{kernels}

## What was looked up after runs had been seen

Every figure is from kernels, documents or code, but these were looked up, or chosen among such, after whole runs of this page had come out wrong; so
the table above is no blind test. Causes of misses are supposed, not shown by experiment.

Steps:

- *The rule for chips without kernels* went by watts at first (a B200's TFLOP/s per watt for all chips of 4 nm); the mean assumes less, and came after
  H100s had come out 17 to 25 % too quick.
- *A100 SXM* has the shares of the PCIe card's kernels and no longer 0.83 of its peak: MPT had come out 3 to 12 % too quick.
- *MPT's attention* is FlashAttention in Triton (the default of the script that made the tables), 1.4 times as slow forward and twice as slow backward as
  FlashAttention-2 on an A100 (Dao 2023, section 4.1): long texts had come out 23 to 37 % too quick.
- *Sums of activations* are sent in bf16: tensor-parallel runs had come out slow.
- *One kernel each* for a softmax, a norm and a loss: two runs had come out 30 % too slow. Mist's kernels say it, too.
- *What frameworks do besides* was read in PyTorch's, torchtitan's, Megatron-LM's and Sailor's code: these runs had come out 7 to 22 % too quick.
- *PyTorch's softmax* is two kernels backward (`SoftMax.cu` multiplies first), and the gradients of both factors of a product each read that of the product.
- *Mist*: its repository says at which clock its L4s ran, and has times of 144 and 20 products, which replaced carried-over shares: its runs had come out 20 % too
  quick. Its gradients are in 16 bits, as its files have it.
- *Sailor*, after steps had come out 12.7 % off (tau 0.87): f32 with stored scores, the GH200's f32 as TF32, as NVIDIA's containers have it. DeepSpeed sends by calls that hold the
  stream, each device its share of an activation (`PartitionedTensor`). OPT and GPT-Neo never add the biases of three of their four products, have query, key and value head by head, and a
  vocabulary padded to 128 for each device. Links are those that its authors measured (0.115 GB/s to the node of RTX 3090s, for which 10 Gbit/s had been guessed); RTX 2080s have 11 GB,
  which the Ti has. Products and all-reduces of its RTX cards are from layers of the same OPT that its authors timed on one node; forward alone decided products. Held against all
  layers that they timed, tables and rules are within 9 % on 4 kinds of cards at micro-batches of 4 and 8 (two cards, whose products go by messages, excepted), so what holds of
  runs beyond that is stages, data parallelism and the network. One row's one replica reduces gradients for 5.46 s, and has the figures of another row to the digit: it is refused.
- *Products of experts* have tables of their own of SimuMax's grouped kernels, which had been left out: its DeepSeek-V3 had come out 10 to 15 % too quick.
- *Partial results of activations* arise in bf16 where they are sent so, as frameworks' products give them (they had been f32, and converted): torchtitan's 8B with tensor parallelism had come out
  7.8 % too slow. SimuMax's with tensor parallelism, which had come out 0 to 8 % too quick, are further off by it: 1 to 9 %.
- *Rotary positions* are complex numbers of f32 in torchtitan, for which torch.compile makes no kernels (it warns of that), and without a compiler a kernel for each function: meant to be so before,
  but not found where they had joined the product that gives queries or keys. Its data-parallel runs had come out 8 to 13 % too quick.
- *SimuMax*, after 6.1 %: its table of gradients of weights had mixed those given in f32, as Megatron-LM asks for, with others in bf16, which are quicker; it has the former alone.

Memory:

- *Rules of memory* (what Megatron-LM gathers again in backward, what a softmax keeps, masks of dropout, whole gradients that stay) were written down from code after the sums of this
  table were known. FSDP2's gathered layers, torch's loss in f32, the allocator's streams and DDP's and DeepSpeed's copies made torchtitan's runs 26 % too large, which led to the rule that
  a checkpoint keeps of a layer what products and attention give alone; without a compiler also products that nothing reads, as torch's code says.
- *SimuMax* ran Transformer Engine's loss, by the names of its runs and its guide: seen when Megatron-LM's had made memory 8 to 20 % too large.
- *Sailor's column* is `memory.used` of nvidia-smi: its authors' simulator says that 4.76 + 0.3 GB on their GH200s, and 3 GB elsewhere, are not torch's. That is taken off the measured
  figure, and neither is ours; small runs would have less. OPT has ReLU, GPT-Neo dropout and no head, masks of f32 are kernels of their own, and one row has the layers of another model. Memory got
  worse by the mask (OPT) and stays so.
- *What is reserved*, after 9 % (Sailor) and 5 % (Mist): optimizers of PyTorch and DeepSpeed make their states at the end of the first step, in blocks that activations leave, so that the next step
  asks for others; Mist's are made before. Of what collectives read and write the allocator holds blocks until the device has got there (`recordStream`), while the host is ahead. apex's layer norm keeps
  its result and not what it read (`mem_efficient_ln`; OPT has it, GPT-Neo torch's). DeepSpeed flattens gradients with one replica, too, and its last stage has the logits of two micro-batches before.
- *Masks of dropout* are whole on each device without sequence parallelism: Megatron's formula is 1.5 % off, and was 3.2 %.

Read and found as written: sizes, rounding and splitting of PyTorch's allocator, that DeepSpeed lets gradients go (`zero_grad`) and flattens, multiplies and copies them, the passes of Transformer Engine's
loss (its newest writes the gradient to an f32 tensor of its own; of the version that ran this was not looked up).

**ZeRO-2** is in six rows alone, MPT 3b and 1b on 128 to 512 H100s (`SHARD_GRAD_OP`), of one micro-batch a step and without memory. PyTorch documents that it gathers weights before forward,
keeps them until backward is through, and reduces and scatters gradients. As priced, weights are gathered once, as many bytes, but after the update and not beside forward. Of several micro-batches a step it
would be cheaper than it is there: FSDP gathers weights anew in each.
"""


def write(path, found):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True,
                            cwd=found["tree"]).stdout.strip()
    most_step, most_memory = 0.12, 0.1
    text = INTRODUCTION.format(
        options=(" --ablate" if found["effects"] else "") + (" --plan SECONDS" if found["plans"] else ""), date=datetime.date.today().isoformat(), commit=commit,
        kernels=markdown(found["kernels"]), table=markdown(found["table"]), groups=markdown(groups(found["results"])),
        misranked=markdown(misranked(found["results"])),
        refused="\n".join(f"- {line}" for line in found["why"]), most_step=100 * most_step,
        most_memory=100 * most_memory, misses=markdown(misses(found["results"], most_step, most_memory)),
        planned=markdown(planned(found["results"])), found=plans_found(found["plans"]),
        forward=markdown(passes(found["forward"])) if found["forward"] else "No measurements are at hand.",
        effects=markdown(found["effects"]) if found["effects"] else "Not asked for (`--ablate`).")
    with open(path, "w") as file:
        file.write(text)

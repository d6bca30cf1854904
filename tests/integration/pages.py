"""The pages of `cleave report` and `cleave diff --page` in a real browser: pages.py CLEAVE TREE

They have the numbers of --json, fetch nothing, complain of nothing, can be moved through by keys, and run nothing of
what a model, a machine or a layout is called.  Skipped (77) where there is no Chromium."""

import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402

cleave, tree = map(os.path.abspath, sys.argv[1:3])
work = tempfile.TemporaryDirectory()
failures = 0


def expect(is_so, text):
    global failures
    if not is_so:
        failures += 1
        print("FAILED:", text, file=sys.stderr)


def at_work(name):
    return os.path.join(work.name, name)


def config(name):
    return os.path.join(tree, "configs", name)


def run(*arguments, expected=0):
    done = subprocess.run([cleave, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != expected:
        sys.exit(f"cleave {' '.join(arguments)}: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
         "ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}


def value_of(text):
    """The first quantity in a text, as --json has it."""
    number, unit = re.search(r"([0-9.]+) (ps|ns|us|ms|s|B|KiB|MiB|GiB|TiB)\b", text).groups()
    return float(number) * UNITS[unit]


def near(a, b, share=0.006):
    return abs(a - b) <= share * max(abs(a), abs(b))


TEXT_OF = "[...document.querySelectorAll(%s)].map((e) => e.textContent)"


def texts(page, selector):
    return page.evaluate(TEXT_OF % json.dumps(selector))


def open_page(page, name):
    address = page.open(at_work(name))
    expect(page.fetched() == [address], f"{name} fetches {page.fetched()}")
    expect(os.path.getsize(at_work(name)) < 5e6, f"{name} has {os.path.getsize(at_work(name))} bytes")
    policy = page.evaluate("document.querySelector('meta[http-equiv]').content")
    expect("unsafe" not in policy and policy.startswith("default-src 'none'"), f"{name}: policy {policy}")


# ---- what each page has ------------------------------------------------------------------------------


def check_figures(page, name, simulated, sent):
    """The exact figures as data, and what is read of them."""
    figures = json.loads(page.evaluate("document.getElementById('figures').textContent"))
    tiles = dict(zip(texts(page, ".tiles dt"), texts(page, ".tiles dd")))
    peak = max(simulated["peak_bytes"])
    expect(figures["step_seconds"] == simulated["step_seconds"], f"{name}: step {figures['step_seconds']}")
    expect(figures["price_shares"] == simulated["price_shares"], f"{name}: price shares")
    expect(figures["tasks"] == simulated["tasks"], f"{name}: {figures['tasks']} tasks")
    expect(figures["peak_bytes"] == peak, f"{name}: peak {figures['peak_bytes']} is not {peak}")
    expect(near(figures["bytes_sent"], sent, 1e-9), f"{name}: sent {figures['bytes_sent']} is not {sent}")
    expect(near(value_of(tiles["Step"]), simulated["step_seconds"]), f"{name}: {tiles['Step']}")
    expect(near(value_of(tiles["Memory"]), peak), f"{name}: {tiles['Memory']}")
    expect(near(value_of(tiles["Sent a step"]), sent), f"{name}: {tiles['Sent a step']}")
    total = sum(map(value_of, texts(page, "#operators tbody tr td:nth-child(6)")))
    expect(near(total, simulated["step_seconds"], 0.01), f"{name}: operators take {total} s together")
    cells = sum(value_of(text.split(": ")[1]) for text in texts(page, ".matrix title"))
    expect(near(cells, sent, 0.006), f"{name}: the matrix has {cells} bytes")
    return figures


def check_explained(page, figures, explained):
    """The table of operators against `explain --json`, by the operators that are a row of their own."""
    expect(figures["critical_seconds"] == explained["critical_seconds"], "critical seconds")
    wanted = {operator["name"]: operator for operator in explained["operators"]}
    found = 0
    for row in page.evaluate("[...document.querySelectorAll('#operators tbody tr')]"
                             ".map((row) => [...row.cells].map((cell) => cell.textContent))"):
        operator = wanted.get(row[0])
        if operator is None:
            continue
        found += 1
        expect(row[3] == f"{100 * operator['share']:.1f} %", f"{row[0]} has {row[3]}, not {operator['share']}")
        expect(row[7] == operator["bound_by"], f"{row[0]} is bound by {row[7]}, not {operator['bound_by']}")
        if operator["alternatives"]:
            other = operator["alternatives"][0]["step_seconds"] / explained["step_seconds"] - 1
            expect(abs(float(row[8].rstrip(" %")) - 100 * other) < 0.0051, f"{row[0]}: next best {row[8]}, not {other}")
    expect(found > 0, "no operator is a row of its own")


def check_known(page, searched):
    rows = dict(page.evaluate("[...document.querySelectorAll('#known tbody tr')]"
                              ".map((row) => [row.cells[0].textContent, row.cells[2]?.textContent])"))
    for name, seconds in searched["baselines"].items():
        expect(name in rows, f"{name} is missing among the known")
        if name in rows and isinstance(seconds, (int, float)):
            expect(near(value_of(rows[name]), seconds), f"{name}: {rows[name]}, not {seconds}")


def check_moves(page, name):
    """By keys: zoom, items, lanes, back; and a block whose parts the devices show."""
    drawn = "document.querySelector('.timeline svg').innerHTML"
    page.evaluate("document.querySelector('.timeline').focus()")
    whole = page.evaluate(drawn)
    page.press("+")
    near_by = page.evaluate(drawn)
    expect(near_by != whole, f"{name}: + does not zoom")
    page.press("ArrowRight")
    expect(page.evaluate(drawn) != near_by, f"{name}: an arrow does not move")
    page.press("0")
    expect(page.evaluate(drawn) == whole, f"{name}: 0 does not show the whole step")
    page.press("n")
    first = texts(page, ".readout")[0]
    page.press("n")
    second = texts(page, ".readout")[0]
    expect(re.match(r"device \d+, \w+, main lane: ", first) and first != second, f"{name}: n reads {first}, {second}")
    page.evaluate("document.querySelector('.blocks button').focus()")
    chosen = texts(page, ".chosen")[0]
    expect(texts(page, ".blocks .block")[0] in chosen, f"{name}: {chosen}")
    page.press("ArrowDown")
    expect(texts(page, ".chosen")[0] != chosen, f"{name}: an arrow does not choose the next block")


def check_looks(page, name):
    """Nothing is wider than the window, and it prints."""
    for width in [360, 1280]:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        room = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        expect(room <= 0, f"{name}: {room} pixels too wide for {width}")
    colours = []
    for scheme in ["light", "dark"]:
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    expect(colours[0] == "rgb(255, 255, 255)" and colours[1] != colours[0], f"{name}: {colours}")
    page.call("Emulation.setEmulatedMedia", features=[])
    expect(len(page.call("Page.printToPDF")["data"]) > 10000, f"{name} does not print")


def check_quiet(page, name):
    expect(page.complaints() == [], f"{name} says {page.complaints()}")


# ---- the pages ---------------------------------------------------------------------------------------


def make_plan(given, name, layout):
    return run("search", *given, "--method", name, "--quiet", "--json", "-o", layout)


def check_alexnet(page):
    model = ["--model", config("models/alexnet.onnx"), "--batch", "4"]
    given = model + ["--machine", config("machines/two-cores.json")]
    layout, trace = at_work("alexnet.layout.json"), at_work("run.json")
    searched = make_plan(given, "one-weird-trick", layout)
    run("run", *model, "--layout", layout, "--steps", "2", "--trace", trace, "--quiet")
    run("report", *given, "--layout", layout, "--run", trace, "--quiet", "-o", at_work("alexnet.html"))
    simulated = run("simulate", *given, "--layout", layout, "--json")
    open_page(page, "alexnet.html")
    figures = check_figures(page, "alexnet", simulated, simulated["bytes_sent"])
    expect(figures["measured_step_seconds"] > 0, "no measured step")
    sides = page.evaluate("JSON.parse(document.getElementById('timeline-data').textContent).a.lanes"
                          ".map((lane) => [lane.device, lane.side, lane.spans.length])")
    expect([side for device, side, n in sides if device == 0] == ["measured"] * 2 + ["predicted"] * 2,
           f"measured is not above predicted: {sides}")
    expect(all(n > 0 for device, side, n in sides if side == "measured"), f"nothing was measured: {sides}")
    check_explained(page, figures, run("explain", *given, "--layout", layout, "--json", "--quiet"))
    check_known(page, searched)
    check_moves(page, "alexnet")
    check_looks(page, "alexnet")
    check_quiet(page, "alexnet")
    refused = subprocess.run([cleave, "report", *given, "--layout", layout, "--run", layout, "-o", at_work("no.html")],
                             stderr=subprocess.PIPE, text=True)
    expect(refused.returncode == 2 and not os.path.exists(at_work("no.html")), f"a run that is none: {refused}")
    return given, layout


def check_diff(page, given, layout):
    other, name = at_work("other.layout.json"), "diff.html"
    make_plan(given, "data-parallel", other)
    compared = run("diff", layout, other, *given, "--page", at_work(name), "--quiet", "--json", expected=1)
    open_page(page, name)
    for text, key in zip(texts(page, "#sides tbody td:nth-child(5)"), "ab"):
        expect(near(value_of(text), compared[key]["step_seconds"]), f"{key}: {text}")
    labels = texts(page, ".timeline svg text.name")
    expect([text[:2] for text in labels if ": " in text] == ["A:", "B:"], f"timelines: {labels}")
    check_looks(page, name)
    check_quiet(page, name)


def check_many(page, machine, devices):
    """A page of a transformer on so many devices; beyond 64 by folds and closed forms."""
    given = ["--model", config("models/bert_base.json"), "--sequence", "128", "--batch", str(4 * devices),
             "--machine", config(f"machines/{machine}.json")]
    layout, name = at_work(f"{devices}.layout.json"), f"{devices}.html"
    searched = make_plan(given + ["--devices", str(devices)], "data-parallel", layout)
    run("report", *given, "--layout", layout, "--splits", "8", "--quiet", "-o", at_work(name))
    simulated = run("simulate", *given, "--layout", layout, "--json")
    open_page(page, name)
    expect(page.evaluate("document.querySelectorAll('.devices .device').length") == devices, f"{name}: devices")
    check_figures(page, name, simulated, searched["bytes_sent"])
    check_known(page, searched)
    check_moves(page, name)
    check_looks(page, name)
    check_quiet(page, name)


def check_opening(path, name):
    """In a browser of its own what the page's thread does until it is shown: processor time, others work here too."""
    page = browser.Browser(path)
    try:
        page.call("Performance.enable", timeDomain="threadTicks")
        page.open(at_work(name))
        took = {metric["name"]: metric["value"] for metric in page.call("Performance.getMetrics")["metrics"]}
        expect(0 < took["TaskDuration"] < 1, f"{name} takes {took['TaskDuration']} s to open")
    finally:
        page.close()


# ---- names that want to run --------------------------------------------------------------------------

SCRIPT = "<script>hit=1</script>"
HOSTILE = {
    "/features/features.0/Conv": "</script><script>hit=1//",
    "/features/features.3/Conv": "\"'><img src onerror=hit=1",
    "/features/features.2/MaxPool": "' onmouseover=hit=1 \u2028\u2029",
    "/classifier/classifier.1/Gemm": "\"><svg onload=hit=1>&quot;]]>",
    "/classifier/classifier.4/Gemm": "${hit=1}`;hit=1;</style><!--\\",
}


def check_hostile(page):
    with open(config("models/alexnet.onnx"), "rb") as file:
        model = file.read()
    names = {}
    for name, other in HOSTILE.items():  # as long as those that they stand for, so that lengths stay right
        bytes_of = other.encode()
        bytes_of += b"." * (len(name) - len(bytes_of))
        expect(len(bytes_of) == len(name) and name.encode() in model, f"{other} does not fit {name}")
        model = model.replace(name.encode(), bytes_of)
        names[name] = bytes_of.decode()
    hostile = at_work("<img src=x onerror=hit=1>.onnx")
    with open(hostile, "wb") as file:
        file.write(model)
    with open(config("machines/two-cores.json")) as file:
        machine = json.load(file)
    machine["name"] = "</title>" + SCRIPT
    with open(at_work("machine.json"), "w") as file:
        json.dump(machine, file)
    given = ["--model", hostile, "--batch", "4", "--machine", at_work("machine.json")]
    layout = at_work("\"><svg onload=hit=1>.layout.json")
    make_plan(given, "data-parallel", layout)
    with open(layout) as file:
        plan = json.load(file)
    plan["method"] = SCRIPT
    with open(layout, "w") as file:
        json.dump(plan, file)
    run("report", *given, "--layout", layout, "--quiet", "-o", at_work("hostile.html"))
    other = at_work("one-weird-trick.layout.json")
    make_plan(given, "one-weird-trick", other)
    run("diff", layout, other, *given, "--quiet", "--page", at_work("hostile-diff.html"), expected=1)
    for name in ["hostile.html", "hostile-diff.html"]:
        open_page(page, name)
        page.evaluate("for (const e of document.querySelectorAll('*')) for (const t of ['mouseover', 'focus', 'error'])"
                      " e.dispatchEvent(new Event(t))")
        expect(page.evaluate("typeof hit") == "undefined", f"{name} runs a name")
        expect(page.evaluate("document.scripts.length") == page.evaluate(
            "[...document.scripts].filter((s) => s.type === 'application/json').length") + 1, f"{name} has more scripts")
        expect(page.evaluate("document.images.length") == 0, f"{name} has images")
        expect("</title>" + SCRIPT in page.evaluate("document.body.innerText"), f"{name}: the machine's name is not there")
        check_quiet(page, name)
    open_page(page, "hostile.html")
    shown = page.evaluate("document.body.textContent")
    for name in names.values():
        expect(name in shown, f"{name} is not on the page as it is")
    check_moves(page, "hostile.html")
    page.evaluate("{ const s = document.createElement('script'); s.textContent = 'hit=1'; document.body.append(s); }")
    expect(page.evaluate("typeof hit") == "undefined", "the policy lets a script in")


def main():
    path = browser.find()
    if path is None:
        print("no Chromium here: `apt-get install chromium` (./bootstrap browser) has pages opened")
        sys.exit(77)
    page = browser.Browser(path)
    try:
        given, layout = check_alexnet(page)
        check_diff(page, given, layout)
        check_hostile(page)
        for machine, devices in [("a100-128x8", 64), ("a100-128x8", 1024), ("h100-512x8", 4096)]:
            check_many(page, machine, devices)
    finally:
        page.close()
    check_opening(path, "4096.html")
    sys.exit(1 if failures else 0)


main()

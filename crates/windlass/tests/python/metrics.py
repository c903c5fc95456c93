"""Reads the metrics page as Prometheus would, and holds it against the rules of its exporters, the dashboard and the alert rules.

Arguments: the address of a broker, the folder with the dashboard and the rules.
"""

import json
import math
import re
import sys
import urllib.request
from pathlib import Path

import promql_parser
import yaml
from prometheus_client.parser import text_string_to_metric_families

NAME = re.compile(r"^[a-z][a-z0-9_]*$")
# Units that are not base units, and words that the type says already.
BAD_WORDS = {"ms", "us", "milliseconds", "microseconds", "minutes", "hours", "days", "kb", "mb", "kilobytes",
             "megabytes", "percent", "gauge", "counter", "histogram"}
LABELS = {"type", "priority", "status", "queue", "state", "reason", "version", "le"}
# Prometheus adds these by itself.
OF_PROMETHEUS = {"up": {"job", "instance"}}
TARGET_LABELS = {"job", "instance"}


def check(good, complaint):
    if not good:
        sys.exit(complaint)


def lint(text):
    """The names and labels of all samples."""
    families = list(text_string_to_metric_families(text))
    check(len(families) > 20, "there is hardly anything")
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        said = re.search(rf"^# HELP {name} .*Since this process began\.$", text, re.MULTILINE)
        check((said is None) == (kind == "gauge"), f"{name}: its help and its type disagree about where it begins")
    headings = re.findall(r"^# (HELP|TYPE) (\S+) (.+)$", text, re.MULTILINE)
    for kind in ("HELP", "TYPE"):
        names = [name for word, name, _ in headings if word == kind]
        check(len(names) == len(set(names)), f"a {kind} stands twice")
        check(len(names) == len(families), f"{kind} is missing somewhere, or a family is torn apart")
    samples, seen = {}, set()
    for family in families:
        name = family.name + ("_total" if family.type == "counter" else "")
        check(family.documentation.strip(), f"{name} has no help")
        check(family.type in ("counter", "gauge", "histogram"), f"{name} is of type {family.type}")
        check(f"# TYPE {name} {family.type}" in text, f"{name}: a counter ends in _total, and nothing else does")
        check(NAME.match(name), f"{name} is not in snake case")
        check(not BAD_WORDS & set(name.split("_")), f"{name} has no base unit, or names its type")
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            check(key not in seen, f"{key} stands twice")
            seen.add(key)
            check(set(sample.labels) <= LABELS, f"{sample.name} has unknown labels {sample.labels}")
            check(math.isfinite(sample.value) and sample.value >= 0, f"{key} is {sample.value}")
            samples.setdefault(sample.name, set()).update(sample.labels)
        if family.type == "histogram":
            histogram(family)
    return samples


def histogram(family):
    rows = {}
    for sample in family.samples:
        labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        row = rows.setdefault(labels, {"buckets": []})
        if sample.name.endswith("_bucket"):
            row["buckets"].append((float(sample.labels["le"]), sample.value))
        else:
            row[sample.name.removeprefix(family.name)] = sample.value
    for labels, row in rows.items():
        bounds, counts = zip(*row["buckets"])
        check(list(bounds) == sorted(set(bounds)), f"the bounds of {family.name}{labels} do not ascend")
        check(list(counts) == sorted(counts), f"the buckets of {family.name}{labels} are not cumulative")
        check(bounds[-1] == math.inf and counts[-1] == row["_count"], f"{family.name}{labels} does not add up")
        check("_sum" in row, f"{family.name}{labels} has no sum")


def selectors(node):
    """Every series that an expression reads, with the labels that it matches; and all labels that it groups by."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name, {matcher.name for matcher in node.matchers.matchers}
    for part in ("lhs", "rhs", "expr", "vector_selector"):
        if getattr(node, part, None) is not None:
            yield from selectors(getattr(node, part))
    for argument in getattr(node, "args", None) or []:
        yield from selectors(argument)
    modifier = getattr(node, "modifier", None)
    if isinstance(node, promql_parser.AggregateExpr) and modifier is not None:
        inner = {name for name, _ in selectors(node.expr)}
        for name in inner:
            yield name, set(modifier.labels)


def shared(text):
    """Gauges that every broker on one store shows alike, as their help says."""
    names = re.findall(r"^# HELP (\S+) .*which brokers may share", text, re.MULTILINE)
    check(len(names) >= 3, f"only {names} are shared")
    return names


def adds_up_once(where, expression, gauges):
    """What is the same on every broker must not be counted once for each of them."""
    for gauge in gauges:
        for by in re.findall(rf"(?:sum|avg|count)(?: by \(([^)]*)\))? ?\({gauge}\b", expression):
            check("instance" in by, f"{where}: {expression} adds {gauge} up over brokers")


def uses(where, expression, samples):
    plain = expression.replace("$__rate_interval", "5m")
    try:
        parsed = promql_parser.parse(plain)
    except Exception as error:
        sys.exit(f"{where}: {expression}: {error}")
    found = list(selectors(parsed))
    check(found, f"{where}: {expression} reads no series")
    for name, labels in found:
        known = OF_PROMETHEUS.get(name, samples.get(name))
        check(known is not None, f"{where}: there is no {name}")
        missing = labels - known - TARGET_LABELS
        check(not missing, f"{where}: {name} has no label {missing}")


def dashboard(path, samples, gauges):
    board = json.loads(path.read_text())
    expressions = [(f"panel {panel['title']}", target["expr"]) for panel in board["panels"] for target in panel.get("targets", [])]
    expressions += [(f"annotation {it['name']}", it["expr"]) for it in board["annotations"]["list"]]
    check(len(expressions) > 20, "the dashboard shows hardly anything")
    for where, expression in expressions:
        uses(where, expression, samples)
        adds_up_once(where, expression, gauges)
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()
            check(name in samples and label in samples[name] | TARGET_LABELS, f"variable {variable['name']}")


def alerts(path, samples, gauges):
    rules = [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
    check(len({rule["alert"] for rule in rules}) == len(rules) > 5, "each rule has a name of its own")
    for rule in rules:
        uses(rule["alert"], rule["expr"], samples)
        adds_up_once(rule["alert"], rule["expr"], gauges)
        check(rule["labels"]["severity"] in ("warning", "critical"), f"{rule['alert']} has no severity")
        for text in (rule["annotations"]["summary"], rule["annotations"]["description"]):
            check(text, f"{rule['alert']} says nothing")
            for label in re.findall(r"\$labels\.(\w+)", text):
                check(f"{label}" in rule["expr"] or label in TARGET_LABELS | samples_of(rule, samples), f"{rule['alert']}: {label}")


def samples_of(rule, samples):
    """The labels that an alert can have when it does not group."""
    parsed = promql_parser.parse(rule["expr"])
    return set().union(*(samples.get(name, set()) for name, _ in selectors(parsed)))


def main():
    address, folder = sys.argv[1], Path(sys.argv[2])
    answer = urllib.request.urlopen(f"http://{address}/metrics")
    check(answer.headers["content-type"].startswith("text/plain; version=0.0.4"), "the content type is wrong")
    text = answer.read().decode()
    samples, gauges = lint(text), shared(text)
    print("lint")
    dashboard(folder / "grafana/windlass.json", samples, gauges)
    print("dashboard")
    alerts(folder / "prometheus/alerts.yml", samples, gauges)
    print("alerts")
    scrape = yaml.safe_load((folder / "prometheus/prometheus.yml").read_text())
    check(scrape["scrape_configs"][0]["job_name"] == "windlass" and scrape["rule_files"] == ["alerts.yml"], "scrape")
    print("scrape")


main()

/* SimGrid on a task graph (format: simulator/events/tasks.h, without VIA): a line with the number
   of tasks, the makespan, and the processor time of the simulation in seconds; reading the file and
   building the platform are not in it.

   The plain flow model CM02: a transfer takes latency plus bytes over its share of the bandwidth,
   without the corrections for TCP, and nothing flows against it.  A task becomes an activity when
   it is ready and is let go when it has ended: given the whole graph at once SimGrid is slower by
   far.
     usage: bench_simgrid FILE */
#include "../arguments.h"

#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace s4u = simgrid::s4u;

namespace {

constexpr double flops_per_second = 1e9; // of every device: seconds become flops and again seconds

struct Task {
    bool is_exec = false;
    int source = 0, target = 0; // of an exec both are its device
    double amount = 0;          // flops, or bytes
    int n_before = 0;
    std::vector<int> next;
    s4u::ActivityPtr activity; // from its start to its end
};

struct Link {
    int from, to;
    double bytes_per_second, latency_seconds;
};

struct Graph {
    int n_devices = 0;
    std::vector<Link> links;
    std::vector<Task> tasks;
};

Task &task_at(Graph &graph, size_t id) {
    if (id >= graph.tasks.size())
        graph.tasks.resize(id + 1);
    return graph.tasks[id];
}

bool read_record(const std::string &line, Graph &graph) {
    std::istringstream fields(line.substr(0, line.find('#')));
    std::string kind;
    if (!(fields >> kind))
        return true;
    size_t id = 0, other = 0;
    if (kind == "node") {
        fields >> graph.n_devices;
    } else if (kind == "link") {
        Link link{};
        fields >> link.from >> link.to >> link.bytes_per_second >> link.latency_seconds;
        graph.links.push_back(link);
    } else if (kind == "exec" && fields >> id) {
        Task &task = task_at(graph, id);
        task.is_exec = true;
        fields >> task.source >> task.amount;
        task.target = task.source;
        task.amount *= flops_per_second;
    } else if (kind == "comm" && fields >> id) {
        Task &task = task_at(graph, id);
        fields >> task.source >> task.target >> task.amount;
    } else if (kind == "dep" && fields >> id >> other) {
        task_at(graph, id).next.push_back(static_cast<int>(other));
        task_at(graph, other).n_before++;
    } else {
        return false;
    }
    return !fields.fail();
}

bool read_graph(const char *path, Graph &graph) {
    std::ifstream file(path);
    std::string line;
    bool is_good = file.good();
    while (is_good && std::getline(file, line))
        is_good = read_record(line, graph);
    return is_good;
}

/* A host for every device; a route is the direct link, else the two over a switch. */
std::vector<s4u::Host *> build_platform(const Graph &graph) {
    s4u::NetZone *zone = s4u::create_full_zone("devices");
    std::vector<s4u::Host *> hosts;
    for (int device = 0; device < graph.n_devices; device++)
        hosts.push_back(
            zone->create_host("device " + std::to_string(device), flops_per_second)->seal());
    std::map<std::pair<int, int>, s4u::Link *> links;
    int hub = -1;
    for (const Link &link : graph.links) {
        std::string name = std::to_string(link.from) + " to " + std::to_string(link.to);
        links[{link.from, link.to}] = zone->create_link(name, link.bytes_per_second)
                                          ->set_latency(link.latency_seconds)
                                          ->seal();
        hub = link.to >= graph.n_devices ? link.to : hub;
    }
    for (int a = 0; a < graph.n_devices; a++)
        for (int b = 0; b < graph.n_devices; b++) {
            std::vector<s4u::LinkInRoute> route;
            if (links.count({a, b}) != 0)
                route.emplace_back(links[{a, b}]);
            else if (a != b && links.count({a, hub}) != 0 && links.count({hub, b}) != 0)
                route = {s4u::LinkInRoute(links[{a, hub}]), s4u::LinkInRoute(links[{hub, b}])};
            if (!route.empty())
                zone->add_route(hosts[a]->get_netpoint(), hosts[b]->get_netpoint(), nullptr,
                                nullptr, route, false);
        }
    zone->seal();
    return hosts;
}

class Runner {
  public:
    Runner(Graph &graph, const std::vector<s4u::Host *> &hosts) : graph_(graph), hosts_(hosts) {}

    void start_all() {
        for (Task &task : graph_.tasks)
            if (task.n_before == 0)
                start(task);
    }

    void ended(const s4u::Activity &activity) {
        Task &task = *activity.get_data<Task>();
        n_ended_++;
        for (int next : task.next)
            if (--graph_.tasks[next].n_before == 0)
                start(graph_.tasks[next]);
        // SimGrid is not through with it yet: let go a little later.
        ended_.push_back(std::move(task.activity));
        if (ended_.size() > 256)
            ended_.pop_front();
    }

    size_t n_ended() const { return n_ended_; }

  private:
    void start(Task &task) {
        if (task.is_exec) {
            s4u::ExecPtr exec = s4u::Exec::init();
            exec->set_flops_amount(task.amount);
            exec->set_data(&task);
            task.activity = exec;
            exec->set_host(hosts_[task.source]);
            exec->vetoable_start();
        } else {
            s4u::CommPtr comm = s4u::Comm::sendto_init(hosts_[task.source], hosts_[task.target]);
            comm->set_payload_size(static_cast<uint64_t>(task.amount));
            comm->set_data(&task);
            task.activity = comm;
            comm->vetoable_start();
        }
    }

    Graph &graph_;
    const std::vector<s4u::Host *> &hosts_;
    std::deque<s4u::ActivityPtr> ended_;
    size_t n_ended_ = 0;
};

double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void configure() {
    for (const char *setting :
         {"network/model:CM02", "network/TCP-gamma:0", "network/bandwidth-factor:1",
          "network/latency-factor:1", "network/weight-S:0", "network/crosstraffic:0"})
        s4u::Engine::set_config(setting);
}

} // namespace

int main(int argc, char **argv) {
    bench_begin(argc, argv);
    // Settings are announced on standard error otherwise.
    static char quiet[] = "--log=xbt_cfg.thres:warning";
    std::vector<char *> arguments(argv, argv + argc);
    arguments.push_back(quiet);
    arguments.push_back(nullptr);
    int n_arguments = argc + 1;
    s4u::Engine engine(&n_arguments, arguments.data());
    configure();
    Graph graph;
    if (argc != 2 || !read_graph(argv[1], graph)) {
        std::fprintf(stderr, "usage: bench_simgrid FILE, with a task graph that can be read\n");
        return 2;
    }
    std::vector<s4u::Host *> hosts = build_platform(graph);
    Runner runner(graph, hosts);
    s4u::Activity::on_completion_cb(
        [&runner](const s4u::Activity &activity) { runner.ended(activity); });
    double before = processor_seconds();
    runner.start_all();
    engine.run();
    double seconds = processor_seconds() - before;
    if (runner.n_ended() != graph.tasks.size()) {
        std::fprintf(stderr, "bench_simgrid: %zu of %zu tasks have ended\n", runner.n_ended(),
                     graph.tasks.size());
        return 1;
    }
    std::printf("%zu %.12f %.9f\n", graph.tasks.size(), s4u::Engine::get_clock(), seconds);
    std::fflush(stdout);
    std::_Exit(0); // Taking the platform down takes longer than using it.
}

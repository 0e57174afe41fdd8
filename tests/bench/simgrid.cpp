// The tasks of a simulation over a network, carried out by SimGrid's flow model. See simgrid.py.
//
// Standard input, numbers apart by white space: links, then for each its bytes per second; hosts; pairs,
// then for each its two hosts, how many links its path has and which; tasks, then for each its pair (-1: a computation), its bytes or
// seconds, the seconds after which it is released, how many tasks it waits for and which. Standard output:
// when each task ended, in seconds, a line each.

#include <cstdio>
#include <iostream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Task {
  long pair;
  double amount, release;
  long waits; // for so many tasks
  std::vector<long> followers;
  sg4::SemaphorePtr ready; // released by each of the tasks that it waits for
  double end = -1;
};

static std::vector<Task> tasks;

static void carry_out(const std::vector<long>& mine, sg4::Host* from, sg4::Host* to) {
  for (long number : mine) {
    Task& task = tasks[number];
    for (long left = task.waits; left > 0; left--)
      task.ready->acquire();
    sg4::this_actor::sleep_until(task.release);
    if (to == nullptr)
      sg4::this_actor::sleep_for(task.amount);
    else
      sg4::Comm::sendto(from, to, static_cast<uint64_t>(task.amount));
    task.end = sg4::Engine::get_clock();
    for (long follower : task.followers)
      tasks[follower].ready->release();
  }
}

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);
  std::ios::sync_with_stdio(false);
  long n_links, n_hosts, n_pairs, n_tasks;
  auto* zone = sg4::create_full_zone("zone");
  std::cin >> n_links;
  std::vector<sg4::Link*> links;
  for (long i = 0; i < n_links; i++) {
    double rate;
    std::cin >> rate;
    links.push_back(zone->create_link("l" + std::to_string(i), rate)->set_latency(0)->seal());
  }
  std::cin >> n_hosts;
  std::vector<sg4::Host*> hosts;
  for (long i = 0; i < n_hosts; i++)
    hosts.push_back(zone->create_host("h" + std::to_string(i), 1e9)->seal());
  std::cin >> n_pairs;
  std::vector<std::pair<sg4::Host*, sg4::Host*>> ends;
  for (long i = 0; i < n_pairs; i++) {
    long src, dst, n_hops, link;
    std::cin >> src >> dst >> n_hops;
    sg4::Host *from = hosts[src], *to = hosts[dst];
    std::vector<sg4::LinkInRoute> path;
    for (; n_hops > 0; n_hops--) {
      std::cin >> link;
      path.emplace_back(links[link]);
    }
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, path, false);
    ends.emplace_back(from, to);
  }
  zone->seal();
  std::cin >> n_tasks;
  tasks.resize(n_tasks);
  std::vector<std::vector<long>> of_pair(n_pairs), alone;
  for (long i = 0; i < n_tasks; i++) {
    Task& task = tasks[i];
    task.ready = sg4::Semaphore::create(0);
    std::cin >> task.pair >> task.amount >> task.release >> task.waits;
    for (long left = task.waits; left > 0; left--) {
      long before;
      std::cin >> before;
      tasks[before].followers.push_back(i);
    }
    if (task.pair < 0)
      alone.push_back({i});
    else
      of_pair[task.pair].push_back(i);
  }
  for (long pair = 0; pair < n_pairs; pair++)
    if (!of_pair[pair].empty())
      sg4::Actor::create("p", ends[pair].first, carry_out, of_pair[pair], ends[pair].first, ends[pair].second);
  for (const auto& one : alone)
    sg4::Actor::create("c", hosts[0], carry_out, one, nullptr, nullptr);
  engine.run();
  for (const Task& task : tasks)
    std::printf("%.17g\n", task.end);
}

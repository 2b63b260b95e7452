// An application that only hands messages over.
#include <posthorn/enqueue.hpp>
#include <posthorn/sqlite.hpp>

#include <iostream>

int main()
{
    auto store = posthorn::sqlite::open("sqlite::memory:");
    const auto placed = posthorn::enqueue(store, {"greeting", "hello"});
    std::cout << "enqueued " << to_string(placed.id) << "\n";
}

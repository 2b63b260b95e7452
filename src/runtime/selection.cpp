// Choosing by position: whoever comes behind the last one is next, whether or not that one is still
// there. So a list that grows or shrinks between two calls loses nobody's turn.
#include <posthorn/error.hpp>
#include <posthorn/selection.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace posthorn {
namespace {

const store_view* named(std::span<const store_view> stores, std::optional<std::string_view> name)
{
    if (!name)
        return nullptr;
    const auto at = std::ranges::find(stores, *name, &store_view::name);
    return at == stores.end() ? nullptr : &*at;
}

// The one with the smallest position behind `position`; behind the last comes the first.
std::size_t next_behind(std::span<const store_view> stores, std::optional<std::uint64_t> position)
{
    const auto rank = [&](const store_view& each) {
        const bool behind = !position || each.position > *position;
        return std::pair{!behind, each.position};
    };
    return static_cast<std::size_t>(std::ranges::min_element(stores, {}, rank) - stores.begin());
}

} // namespace

std::optional<std::size_t> round_robin::select_next(std::span<const store_view> stores,
                                                    std::optional<std::string_view> last,
                                                    std::size_t)
{
    if (stores.empty())
        return std::nullopt;
    if (const auto* found = named(stores, last))
        position_ = found->position;
    const auto next = next_behind(stores, position_);
    position_ = stores[next].position;
    return next;
}

void round_robin::reset()
{
    position_.reset();
}

drain_first::drain_first(std::size_t turns_max) : turns_max_(turns_max)
{
    if (turns_max == 0)
        throw error(error_code::invalid_argument, "drain_first needs at least one turn per store");
}

std::optional<std::size_t> drain_first::select_next(std::span<const store_view> stores,
                                                    std::optional<std::string_view> last,
                                                    std::size_t last_count)
{
    const auto* again = named(stores, last);
    if (again != nullptr && last_count > 0 && turns_ < turns_max_) {
        ++turns_;
        return static_cast<std::size_t>(again - stores.data());
    }
    turns_ = 1;
    return others_.select_next(stores, last, last_count);
}

void drain_first::reset()
{
    turns_ = 0;
    others_.reset();
}

std::optional<std::size_t> lag_aware::select_next(std::span<const store_view> stores,
                                                  std::optional<std::string_view> last,
                                                  std::size_t last_count)
{
    if (stores.empty())
        return std::nullopt;
    const auto worst = std::ranges::max(stores, {}, &store_view::lag).lag;
    std::vector<store_view> equals;
    std::vector<std::size_t> indexes;
    for (std::size_t i = 0; i < stores.size(); ++i)
        if (stores[i].lag == worst) {
            equals.push_back(stores[i]);
            indexes.push_back(i);
        }
    return indexes[*equals_.select_next(equals, last, last_count)];
}

void lag_aware::reset()
{
    equals_.reset();
}

} // namespace posthorn

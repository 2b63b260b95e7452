// Selection strategies: of several stores that may have work, which is served next.
#pragma once

#include <posthorn/time.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace posthorn {

/// One of the stores to choose from.
struct store_view {
    std::string_view name;
    std::uint64_t position = 0; ///< its place among all stores; it keeps it while it is listed

    /// For how long its oldest due message has waited, as far as known: since the store was served
    /// last, and longer if messages were left then.
    duration lag = {};
};

/// What a strategy of your own must have: the index of the store to serve next, or nothing for
/// none. `last` is the store that was served before, which may be gone by now, and `last_count` how
/// many messages it gave. `reset` is called when the stores are not the same any more: what was
/// remembered of their number and order does not hold then.
template <typename Type>
concept SelectionStrategy = std::copyable<Type> &&
    requires(Type strategy, std::span<const store_view> stores)
{
    {
        strategy.select_next(stores, std::optional<std::string_view>{}, std::size_t{})
        } -> std::convertible_to<std::optional<std::size_t>>;
    strategy.reset();
};

/// Each store in its turn.
class round_robin {
public:
    std::optional<std::size_t> select_next(std::span<const store_view> stores,
                                           std::optional<std::string_view> last,
                                           std::size_t last_count);
    void reset();

private:
    std::optional<std::uint64_t> position_; ///< of the store that was chosen last
};

/// Stays with a store for as long as it gives messages, but not for longer than `turns_max` times
/// in a row, so that no store starves behind a busy one.
class drain_first {
public:
    explicit drain_first(std::size_t turns_max = 10);

    std::optional<std::size_t> select_next(std::span<const store_view> stores,
                                           std::optional<std::string_view> last,
                                           std::size_t last_count);
    void reset();

private:
    std::size_t turns_max_;
    std::size_t turns_ = 0; ///< in a row
    round_robin others_;
};

/// The store whose oldest message has waited longest; those that wait equally long in their turn.
class lag_aware {
public:
    std::optional<std::size_t> select_next(std::span<const store_view> stores,
                                           std::optional<std::string_view> last,
                                           std::size_t last_count);
    void reset();

private:
    round_robin equals_;
};

/// Any strategy, as a value.
class selection_strategy {
public:
    selection_strategy() : selection_strategy(round_robin{}) {}

    template <SelectionStrategy Type>
        requires(!std::same_as<std::remove_cvref_t<Type>, selection_strategy>)
    selection_strategy(Type strategy) // NOLINT: meant to convert
        : held_(std::make_unique<holder<Type>>(std::move(strategy)))
    {}
    selection_strategy(const selection_strategy& other) : held_(other.held_->copy()) {}
    selection_strategy(selection_strategy&&) noexcept = default;
    selection_strategy& operator=(const selection_strategy& other)
    {
        held_ = other.held_->copy();
        return *this;
    }
    selection_strategy& operator=(selection_strategy&&) noexcept = default;
    ~selection_strategy() = default;

    std::optional<std::size_t> select_next(std::span<const store_view> stores,
                                           std::optional<std::string_view> last,
                                           std::size_t last_count)
    {
        return held_->select_next(stores, last, last_count);
    }
    void reset() { held_->reset(); }

private:
    struct any {
        virtual ~any() = default;
        virtual std::optional<std::size_t> select_next(std::span<const store_view> stores,
                                                       std::optional<std::string_view> last,
                                                       std::size_t last_count) = 0;
        virtual void reset() = 0;
        [[nodiscard]] virtual std::unique_ptr<any> copy() const = 0;
    };

    template <typename Type>
    struct holder final : any {
        explicit holder(Type held) : strategy(std::move(held)) {}
        std::optional<std::size_t> select_next(std::span<const store_view> stores,
                                               std::optional<std::string_view> last,
                                               std::size_t last_count) override
        {
            return strategy.select_next(stores, last, last_count);
        }
        void reset() override { strategy.reset(); }
        [[nodiscard]] std::unique_ptr<any> copy() const override
        {
            return std::make_unique<holder>(strategy);
        }

        Type strategy;
    };

    std::unique_ptr<any> held_;
};

} // namespace posthorn

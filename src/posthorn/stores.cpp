// Many stores by their URLs: each engine shares its own means among those that are its own.
#include "store/contract/premises.hpp"
#include "store/contract/shelf.hpp"
#include "store/postgres/schemas.hpp"
#include "store/sqlite/files.hpp"
#include <posthorn/error.hpp>
#include <posthorn/stores.hpp>

#include <mutex>
#include <utility>

namespace posthorn {
namespace {

class all_engines final : public contract::premises {
public:
    explicit all_engines(sharing how)
        : how_(std::move(how)), open_(std::make_shared<contract::shelf>(how_.open_files_max))
    {}

    contract::reach way_to(const std::string& url) override
    {
        const auto scheme = url.substr(0, url.find(':'));
        if (scheme == "sqlite")
            return made(files_, [&] { return sqlite::make_files(how_.open, how_.open_files_max); })
                .way_to(url);
        if (scheme == "postgresql" || scheme == "postgres")
            return made(schemas_,
                        [&] { return postgres::make_schemas(how_.open, how_.connections_max); })
                .way_to(url);
        (void)migration_sql(url); // a URL that names no store says so now
        return {.open =
                    [open = open_, options = how_.open, url] {
                        return open->get(url, {},
                                         [&] { return posthorn::open(url, options).share(); });
                    },
                .open_max = how_.open_files_max};
    }

private:
    // Threads and connections are there once they are needed.
    template <typename Make>
    contract::premises& made(std::shared_ptr<contract::premises>& which, const Make& make)
    {
        const std::lock_guard lock(mutex_);
        if (!which)
            which = make();
        return *which;
    }

    const sharing how_;
    std::shared_ptr<contract::shelf> open_; ///< shared with the ways to the stores
    std::mutex mutex_;
    std::shared_ptr<contract::premises> files_; ///< the same
    std::shared_ptr<contract::premises> schemas_;
};

sharing checked(sharing how)
{
    if (how.open_files_max == 0 || how.connections_max == 0)
        throw error(error_code::invalid_argument,
                    "open_files_max and connections_max must be at least 1");
    return how;
}

} // namespace

store_provider stores(std::vector<named_store> list, const sharing& how)
{
    return {[list = std::move(list)] { return list; }, duration::zero(),
            std::make_shared<all_engines>(checked(how)), how.open.environment};
}

store_provider discover(store_provider::lister list, const discovery& how)
{
    if (how.every <= duration::zero())
        throw error(error_code::invalid_argument, "stores cannot be discovered that often");
    return {std::move(list), how.every, std::make_shared<all_engines>(checked(how.with)),
            how.with.open.environment};
}

} // namespace posthorn

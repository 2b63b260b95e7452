// Open stores, of which the ones used last stay open. The others are closed as soon as nobody holds
// them, so that thousands of stores need few descriptors.
#pragma once

#include "store/contract/backend.hpp"

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace posthorn::contract {

/// Threads: safe to use from any.
class shelf {
public:
    explicit shelf(std::size_t size) : size_(size) {}

    /// The open store, or what `open` gives, which is called outside of all locks. A store whose
    /// `stamp` is another than when it was opened is opened again.
    std::shared_ptr<backend> get(const std::string& url, const std::string& stamp,
                                 const std::function<std::shared_ptr<backend>()>& open)
    {
        std::shared_ptr<backend> old; // closed outside of the lock: that may write
        {
            const std::lock_guard lock(mutex_);
            if (const auto found = by_url_.find(url); found != by_url_.end()) {
                if (found->second->stamp == stamp) {
                    items_.splice(items_.begin(), items_, found->second);
                    return items_.front().at;
                }
                old = std::move(found->second->at);
                items_.erase(found->second);
                by_url_.erase(found);
            }
        }
        old.reset();
        auto opened = open();
        std::list<item> closing;
        const std::lock_guard lock(mutex_);
        if (const auto found = by_url_.find(url); found != by_url_.end())
            return found->second->at; // somebody else was quicker
        items_.push_front({.url = url, .stamp = stamp, .at = opened});
        by_url_[url] = items_.begin();
        while (items_.size() > size_) {
            by_url_.erase(items_.back().url);
            closing.splice(closing.begin(), items_, std::prev(items_.end()));
        }
        return opened;
    }

private:
    struct item {
        std::string url;
        std::string stamp;
        std::shared_ptr<backend> at; ///< shared with whoever uses it now
    };

    const std::size_t size_;
    std::mutex mutex_;
    std::list<item> items_; ///< the one used last is the first
    std::map<std::string, std::list<item>::iterator, std::less<>> by_url_;
};

} // namespace posthorn::contract

// Uses of a mutex, for test_lock_check.py. A line with "finding" must be reported.
#include "launcher/fair_mutex.h"
#include "mutex.h"

class Account {
 public:
  int read() {
    MutexLock lock(mutex_);
    return bytes_;
  }
  int read_unguarded() {
    return bytes_;  // finding
  }
  void charge(int bytes) {
    MutexLock lock(mutex_);
    add(bytes);
  }
  void charge_unguarded(int bytes) {
    add(bytes);  // finding
  }
  void charge_after_return(int bytes) {
    MutexLock lock(mutex_);
    add(bytes);
    lock.unlock();
    add(bytes);  // finding
  }
  void wait_with_mutex() {
    MutexLock lock(mutex_);
    wait();  // finding
  }
  bool charge_at_once(int bytes) {
    if (!mutex_.try_lock()) return false;
    add(bytes);
    mutex_.unlock();
    return true;
  }

 private:
  using Mutex = busbar::Mutex;
  using MutexLock = busbar::MutexLock;
  void add(int bytes) REQUIRES(mutex_) { bytes_ += bytes; }
  void wait() EXCLUDES(mutex_) {}
  Mutex mutex_;
  int bytes_ GUARDED_BY(mutex_) = 0;
};

class Turns {
 public:
  int next() {
    busbar::launcher::FairLock lock(mutex_);
    return ++newest_;
  }
  int next_unguarded() {
    return ++newest_;  // finding
  }
  void keep() { mutex_.lock(); }  // finding

 private:
  busbar::launcher::FairMutex mutex_;
  int newest_ GUARDED_BY(mutex_) = 0;
};

int use() {
  Account account;
  Turns turns;
  account.charge(account.read_unguarded());
  account.charge_unguarded(turns.next());
  account.charge_after_return(turns.next_unguarded());
  account.wait_with_mutex();
  turns.keep();
  return account.charge_at_once(1) ? account.read() : 0;
}

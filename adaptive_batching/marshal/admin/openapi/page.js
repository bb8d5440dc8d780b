"use strict";
for (const form of document.querySelectorAll("form")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const output = form.querySelector("output");
    output.textContent = "…";
    try {
      const answer = await fetch(`.${form.dataset.path}`, {
        method: "POST",
        headers: { "Content-Type": form.dataset.type, Accept: "application/json, text/plain, */*;q=0.1" },
        body: form.querySelector("textarea").value,
      });
      output.textContent = `${answer.status}\n${await answer.text()}`;
    } catch (error) {
      output.textContent = `The service can't be reached: ${error.message}`;
    }
  });
}
for (const command of document.querySelectorAll("form + pre")) {
  command.textContent = command.textContent.replace("$URL/", new URL(".", location).href);
}

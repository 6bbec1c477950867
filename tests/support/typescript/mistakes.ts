/** What must not compile; TypeScript refuses a line that is expected to be wrong and isn't. */

import { createPlaudit, type ReviewRow, type SubmittedReview } from "plaudit-client";

const plaudit = createPlaudit({ baseUrl: "http://127.0.0.1:1" });
const good: SubmittedReview = { EntityId: "a", EntityType: "Product", review: "Good.", rating: 4 };
const place = { storeId: "s", entityType: "Product", entityId: "a" };

export async function mistakes(): Promise<void> {
  await plaudit.command("POST", "/api/customerReviews", { body: [good] });
  // @ts-expect-error a misspelt field
  await plaudit.command("POST", "/api/customerReviews", { body: [{ ...good, titel: "Good" }] });
  // @ts-expect-error a number as text
  await plaudit.command("POST", "/api/customerReviews", { body: [{ ...good, rating: "4" }] });
  // @ts-expect-error a field that is needed
  await plaudit.command("POST", "/api/customerReviews", { body: [{ EntityId: "a", review: "Good.", rating: 4 }] });
  // @ts-expect-error no body
  await plaudit.command("POST", "/api/customerReviews", {});
  // @ts-expect-error a query is no command
  await plaudit.command("POST", "/api/rating/entityRating", { body: { entityIds: ["a"], entityType: "Product" } });
  // @ts-expect-error a misspelt field, deeper
  await plaudit.command("PUT", "/api/stores/{storeId}", { params: { path: place }, body: { settings: { reviews: true } } });
  // @ts-expect-error no such path
  await plaudit.GET("/api/customerReview");
  // @ts-expect-error another verb
  await plaudit.GET("/api/customerReviews");
  // @ts-expect-error a part of the path is missing
  await plaudit.GET("/storefront/v1/{storeId}/{entityType}/{entityId}/summary", { params: { path: { storeId: "s" } } });
  // @ts-expect-error a misspelt parameter
  await plaudit.GET("/storefront/v1/{storeId}/{entityType}/{entityId}/reviews", { params: { path: place, query: { star: 5 } } });
  // @ts-expect-error a word that isn't in the list
  await plaudit.GET("/storefront/v1/{storeId}/{entityType}/{entityId}/reviews", { params: { path: place, query: { sort: "best" } } });
  // @ts-expect-error an optional field that is undefined isn't missing
  await plaudit.POST("/api/customerReviews/reviewList", { body: { take: undefined } });

  const { data } = await plaudit.POST("/api/customerReviews/reviewList", { body: { reviewStatus: "New", take: 1 } });
  const row: ReviewRow | undefined = data.results[0];
  // @ts-expect-error a field that answers don't have
  row?.reviewText;
  // @ts-expect-error what may be null is no text
  row?.title.length;
  // @ts-expect-error no such status
  row?.reviewStatus === "new";
  const { data: photo } = await plaudit.GET("/api/images/{imageId}", { params: { path: { imageId: "i" } } });
  // @ts-expect-error a file is no text
  photo.length;
  const { data: metrics } = await plaudit.GET("/metrics");
  // @ts-expect-error a text is no file
  metrics.arrayBuffer();
}
